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
    assert "`key` is used twice: at cell 1:4 (a = jax.random.normal(key)) and" in ran.shown
    assert shell.user_ns["found"].document is not None


def test_the_option_of_jaxpr_is_the_same(run):
    assert run("%jaxpr --silent f(key)").shown == run("%silent f(key)").shown
