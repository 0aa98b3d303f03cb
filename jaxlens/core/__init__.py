"""A tracing and transform core from scratch: a small JAX to read.

`core/README.md` names the files in reading order. `aot/export.py`, `parallel/pmap.py` and all of
`parallel/` can be deleted, each with its lines here: nothing else imports them.
"""

import os as _os

# As jax sets it: jaxlib reads it when it is loaded, and logs each client to stderr without it.
_os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from jaxlens.core import debug, lax, nn, numpy, random, tree
from jaxlens.core.aot.device import XLA as _XLA
from jaxlens.core.aot.device import (
    Array,
    Mesh,
    array,
    block_until_ready,
    device_get,
    device_put,
    devices,
    make_mesh,
)
from jaxlens.core.aot.device import P as PartitionSpec
from jaxlens.core.aot.export import Exported, deserialize, export
from jaxlens.core.aot.programs import Jitted, Key, eval_shape, jit
from jaxlens.core.control.branches import cond, switch
from jaxlens.core.control.loops import while_loop
from jaxlens.core.control.scans import fori_loop, map, scan
from jaxlens.core.debug import debug_nans, log_compiles
from jaxlens.core.folds import associative_scan
from jaxlens.core.interop.from_jax import from_jax
from jaxlens.core.interop.types import container_of as _of_jax
from jaxlens.core.jacobians import hessian, jacfwd, jacobian, jacrev
from jaxlens.core.kernel.interpreter import GROUND as _GROUND
from jaxlens.core.kernel.interpreter import (
    ConcretizationTypeError,
    ForeignTracerError,
    Interpreter,
    Primitive,
    Tracer,
    UnexpectedTracerError,
    interpreting,
)
from jaxlens.core.kernel.interpreter import observer as _observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from jaxlens.core.kernel.run import jit_p as _jit_p
from jaxlens.core.kernel.sources import named_scope
from jaxlens.core.kernel.types import ShapedArray, enable_x64
from jaxlens.core.numpy.indexing import NonConcreteBooleanIndexError
from jaxlens.core.parallel.mapping import shard_map
from jaxlens.core.parallel.pmap import pmap
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.calls import call_rules as _call_rules
from jaxlens.core.transforms.check import check_jaxpr
from jaxlens.core.transforms.custom import custom_jvp, custom_vjp
from jaxlens.core.transforms.derivatives import grad, jvp, linearize, value_and_grad, vjp
from jaxlens.core.transforms.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from jaxlens.core.transforms.errors import refusal as _refusal
from jaxlens.core.transforms.events import Event, listen
from jaxlens.core.transforms.jaxprs import make_jaxpr
from jaxlens.core.transforms.remat import checkpoint
from jaxlens.core.transforms.rules import elementwise_batch, jvp_by_argument, lower_fun
from jaxlens.core.transforms.trees import foreign as _foreign
from jaxlens.core.transforms.trees import (
    register_dataclass,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

# What the rings give to the kernel, here and nowhere else.
_GROUND.backend = _XLA()
_observer.refusal = _refusal  # type: ignore[method-assign]
_call_rules(_jit_p)
_foreign.append(_of_jax)

ShapeDtypeStruct = ShapedArray
remat = checkpoint

_INSIDE = "aot control folds interop jacobians kernel parallel primitives transforms".split()
__all__ = [name for name in sorted(globals()) if name[0].isalpha() and name not in _INSIDE]


def __dir__() -> list[str]:
    return __all__
