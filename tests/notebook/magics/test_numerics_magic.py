"""`%%numerics` in a real shell."""

import pytest

SETUP = """
import jax.numpy as jnp, numpy as np
x = np.float32(1e-5)
def f(x):
    y = jnp.exp(x)
    return y - 1
"""


@pytest.fixture(autouse=True)
def _names(run):
    assert run(SETUP).ok


def test_the_cell_magic_names_the_line(run, shell):
    ran = run("%%numerics -o found\nf(x)")
    assert ran.ok, ran.out
    assert "`sub` in cell 1:5 (`return y - 1`) loses 4 of the 7 digits of float32" in ran.shown
    assert shell.user_ns["found"].document is not None


def test_the_option_of_jaxpr_is_the_same(run):
    assert run("%jaxpr --numerics f(x)").shown == run("%numerics f(x)").shown


def test_shapes_without_data_are_refused_in_one_line(run):
    ran = run("%%numerics --in f32[3]\ndef g(x):\n    return x + 1")
    assert "--numerics needs arrays, got only the shape (3,) of x" in ran.out
    assert "Traceback" not in ran.out
