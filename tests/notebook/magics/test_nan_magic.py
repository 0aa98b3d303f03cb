"""`%%nan` in a real shell."""

import pytest

SETUP = """
import jax, jax.numpy as jnp
x = jnp.array([1.0, -2.0])
def f(x):
    y = x * 2
    return jnp.log(y)
"""


@pytest.fixture(autouse=True)
def _names(run):
    assert run(SETUP).ok


def test_the_cell_magic_names_the_line(run, shell):
    ran = run("%%nan -o found\nf(x)")
    assert ran.ok, ran.out
    assert "The first NaN is made by `log` in cell 1:5 (`return jnp.log(y)`)" in ran.shown
    assert shell.user_ns["found"].document is not None


def test_an_assignment_runs_after_the_look(run, shell):
    assert run("%%nan\nresult = f(x)").ok
    assert float(shell.user_ns["result"][0]) > 0


def test_the_line_magic_takes_transforms(run):
    ran = run("%nan --vmap f(x)")
    assert "vmap(f)(x)" in ran.shown
    assert "first at index [1]" in ran.shown


def test_the_option_of_check_is_the_same(run):
    assert run("%check --nan f(x)").shown == run("%nan f(x)").shown
