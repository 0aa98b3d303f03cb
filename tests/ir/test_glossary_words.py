"""Every word that this JAX can print has an entry: its primitives, and its dialects' ops."""

import importlib

import pytest

from jaxlens.ir.glossary import entry
from tests.support.paths import run_python

pytestmark = pytest.mark.backend

# A process of its own: other tests, and the libraries that they load, make primitives too.
NAMES = """
import gc
import jax, jax.nn, jax.scipy.special, jax.experimental.sparse, jax.experimental.pallas
import jax.extend.core.primitives as public
from jax.extend.core import Primitive
print(*{p.name for p in vars(public).values() if isinstance(p, Primitive)})
print(*{p.name for p in gc.get_objects() if isinstance(p, Primitive)})
"""


def test_every_primitive_of_this_jax_has_an_entry() -> None:
    """Those that users may name, and those that importing JAX and Pallas registers."""
    public, registered = map(str.split, run_python(NAMES).splitlines())
    assert len(public) > 150
    assert len(registered) > 250
    names = sorted({*public, *registered})
    assert [name for name in names if entry("primitive", name) is None] == []


@pytest.mark.parametrize("dialect", ["stablehlo", "chlo", "sdy", "func"])
def test_every_op_of_a_dialect_has_an_entry(dialect: str) -> None:
    module = importlib.import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
    classes = (thing for thing in vars(module).values() if isinstance(thing, type))
    names = sorted(c.OPERATION_NAME for c in classes if hasattr(c, "OPERATION_NAME"))
    assert len(names) > 4
    assert [name for name in names if entry("op", name) is None] == []
