"""What is said where tracing fails: the line, the traced value, and what to write instead."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens


def condition(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return -y


def raised(f, *args):
    """What a look at a call raises."""
    with pytest.raises(Exception) as caught:
        jaxlens.jaxpr(f, *args).text()
    return caught.value


def test_an_exception_that_nobody_looked_at_is_explained_from_its_traceback():
    try:
        jax.jit(condition)(jnp.ones(3))
    except jax.errors.TracerBoolConversionError as error:
        text = str(jaxlens.explain(error))
    assert "if y.sum() > 0:" in text
    assert text.startswith("TracerBoolConversionError while tracing condition")


def test_nothing_was_raised():
    assert jaxlens.explain() is None
