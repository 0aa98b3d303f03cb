"""`%%values` in a real shell."""

import pytest

SETUP = """
import jax.numpy as jnp, numpy as np
x = np.zeros(3, np.float32)
def f(x):
    y = jnp.exp(x)
    return jnp.log(y - 1)
"""


@pytest.fixture(autouse=True)
def _names(run):
    assert run(SETUP).ok


def test_the_cell_magic_names_line_and_equation(run, shell):
    ran = run("%%values -o found\nf(x)")
    assert ran.ok, ran.out
    assert "first `log` in cell 1:5 (`return jnp.log(y - 1)`): 3 inf of 3" in " ".join(
        ran.shown.split()
    )
    assert shell.user_ns["found"].document is not None


def test_the_option_of_jaxpr_is_the_same(run):
    assert run("%jaxpr --values f(x)").shown == run("%values f(x)").shown


def test_the_array_of_an_equation_is_drawn(run):
    assert "e0: float32[3]:\n[1. 1. 1.]" in run("%values --at e0 f(x)").shown


def test_shapes_without_data_are_refused_in_one_line(run):
    ran = run("%%values --in f32[3]\ndef g(x):\n    return x + 1")
    assert "--values needs arrays, got only the shape (3,) of x" in ran.out
    assert "Traceback" not in ran.out
