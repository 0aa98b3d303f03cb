"""`%%silent` in a real shell."""

import pytest

SETUP = """
import jax, jax.numpy as jnp
key = jax.random.key(0)
def f(key):
    a = jax.random.normal(key)
    return a + jax.random.normal(key)
"""


@pytest.fixture(autouse=True)
def _names(run):
    assert run(SETUP).ok


def test_the_cell_magic_names_the_lines(run, shell):
    ran = run("%%silent -o found\nf(key)")
    assert ran.ok, ran.out
    assert "`key` is used twice: at cell 1:4 (`a = jax.random.normal(key)`) and" in ran.shown
    assert shell.user_ns["found"].document is not None


def test_the_option_of_jaxpr_is_the_same(run):
    assert run("%jaxpr --silent f(key)").shown == run("%silent f(key)").shown


BESIDE = "Only `g(key)` is looked at. Also called in this cell, and not looked at: "


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ("%%silent\nf(key)\ng(key)", "`f(key)`"),
        ("%%silent\na = jax.random.normal(key)\ng(key)", "`jax.random.normal(key)`"),
        ("%%nan\na = f(key)\nb = f(key + 1) if False else f(key)\ng(key)", "`f(key)`"),
        ("%%jaxpr\nprint(g(key), f(key))", "`f(key)`"),
    ],
)
def test_the_calls_that_are_not_looked_at_are_named(run, cell, named):
    assert run("def g(key): return jax.random.normal(key)").ok
    shown = " ".join(run(cell).shown.split())
    assert BESIDE in shown
    assert named in shown.partition(BESIDE)[2].partition("Make the calls")[0]


def test_calls_of_one_program_are_not_named(run):
    assert "not looked at" not in run("%%jaxpr\nprint(f(jax.random.split(key)[0]))").shown
    assert "not looked at" not in run("%%jaxpr\na = f(key)\njax.vmap(f)(key[None])").shown
