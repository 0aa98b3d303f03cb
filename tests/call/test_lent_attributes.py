"""An object that lends a function's attributes by `__getattr__` is not that function."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.keys.function_origin import function_origin
from tests.support.calls.callables import Layer, Lender, Proxy, WrappingLender, X, loss

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

LENT = {
    "jit": lambda: jax.jit(loss, donate_argnums=0),
    "jit of vmap": lambda: jax.jit(jax.vmap(jnp.sin)),
    "vmap": lambda: jax.vmap(jnp.sin),
    "grad": lambda: jax.grad(loss),
    "method": lambda: Layer().apply,
    "jitted method": lambda: Layer().donating,
}


@pytest.mark.parametrize("lender", [Lender, WrappingLender, Proxy])
@pytest.mark.parametrize("name", LENT)
def test_its_own_call_is_shown(lender, name):
    lent = lender(LENT[name]())
    cap = jaxlens.capture(lent, X)
    assert "float16" in cap.jaxpr.text  # what it does first
    assert cap.program.unjitted
    assert not cap.program.inputs[0].donated
    if lender is not WrappingLender:
        assert (cap.program.name, cap.program.transforms) == (lender.__name__, ())
        assert function_origin(lent).name == "Lender.__call__"
