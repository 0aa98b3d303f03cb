"""No look imports a module of JAX that changes the keys of its caches."""

import pytest

from tests.support.paths import run_python

pytestmark = pytest.mark.reads_jax

PROGRAM = """
import sys
import jax, jax.numpy as jnp, jaxlens
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
f = jax.jit(jax.grad(lambda x, w: jnp.tanh(x @ w).sum()))
x = jnp.ones((8, 8))
f(x, x)
shell.run_line_magic("load_ext", "jaxlens")
for verb in ("jaxpr", "hlo", "compile", "explore", "memory", "cost", "fusion", "tape", "key"):
    str(getattr(jaxlens, verb)(f, x, x))
str(jaxlens.compile(jaxlens.capture(f, x, x), run=1))
str(jaxlens.timeline(f, x, x)), str(jaxlens.arrays())
str(jaxlens.memory(jaxlens.capture(f, x, x), checkpoint=True))
from jaxlens import core
str(jaxlens.jaxpr(core.grad(lambda x: core.numpy.sum(core.numpy.sin(x))), x))
with jaxlens.recompiles() as log:
    f(x, x)
print(log)
print("jax.extend" in sys.modules, f._cache_size())
"""


@pytest.mark.backend
def test_what_was_compiled_before_is_still_served() -> None:
    said = run_python(PROGRAM)
    assert "JAX's caches served every call" in said
    assert said.splitlines()[-1] == "False 1"
