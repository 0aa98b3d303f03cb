"""A cell that runs out of memory: the failed program is found and shown, unasked."""

import gc
import sys

import pytest

import jaxlens
from jaxlens import ask

pytestmark = pytest.mark.notebook
SETUP = """import jax, jax.numpy as jnp
@jax.jit
def small(x):
    return x * 2
@jax.jit
def outer(x):
    return jnp.outer(x, x) + 1
x = jnp.ones(60_000_000)
"""


@pytest.fixture(autouse=True)
def _nothing_left(shell):
    """Arrays that could not be allocated live no longer than a test."""
    yield
    shell.reset(new_session=True)
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.unfreeze()
    gc.collect()


@pytest.mark.parametrize(
    "cell",
    [
        "y = outer(x)\nz = small(x)\ny.block_until_ready()",
        "def train(data):\n    y = outer(data)\n    return float(y[0, 0])\ntrain(x)",
    ],
)
def test_the_program_that_failed_is_shown_below_the_traceback(run, cell):
    run(SETUP)
    ran = run(cell)
    assert type(ran.error).__name__ == "JaxRuntimeError"
    assert "for outer(x) with x f32[60000000]" in ran.shown  # 4 * 6e7 ** 2 bytes
    assert "The peak is 1.44e+04 TB" in ran.shown
    assert "tries what takes less" in ran.shown


def test_other_errors_show_nothing(run):
    ran = run("raise RuntimeError('out of memory')")
    assert ran.shown == ""
    assert ask.out_of_memory(ValueError("RESOURCE_EXHAUSTED")) is None


def test_a_program_that_is_not_found_is_said():
    kind = type("JaxRuntimeError", (RuntimeError,), {})
    view = ask.out_of_memory(kind("RESOURCE_EXHAUSTED: Out of memory allocating 7000000 bytes."))
    assert "XLA could not get 7 MB" in str(view)
    assert "put %%compile --memory above a cell" in str(view)


def test_no_code_of_the_users_is_called_to_find_it(run):
    run(SETUP + "def noisy():\n    print('called')\n    return x\n")
    ran = run("y = outer(noisy())\ny.block_until_ready()")
    assert ran.out.count("called") == 1
    assert "is not known here" in ran.shown


def test_the_magic_says_whether_it_fits(run):
    ran = run("import jax.numpy as jnp\n%compile --fits '16 GB' jnp.ones(8) * 2")
    assert "It fits 16 GB" in ran.shown
    assert jaxlens.fits
