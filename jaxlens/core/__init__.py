"""A tracing and transform core from scratch: a small JAX whose kernel is read in an evening.

`core/README.md` names the files in reading order.
"""

import os as _os

# As jax sets it: jaxlib reads it when it is loaded, and logs each client to stderr without it.
_os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from jaxlens.core import lax, nn, numpy, random
from jaxlens.core.aot.device import Array, array, block_until_ready, device_get, device_put, devices
from jaxlens.core.aot.export import Exported, deserialize, export
from jaxlens.core.aot.from_jax import from_jax
from jaxlens.core.aot.pmap import pmap
from jaxlens.core.aot.programs import Jitted, Key, eval_shape, jit
from jaxlens.core.control.branches import cond, switch
from jaxlens.core.control.folds import associative_scan, reduce
from jaxlens.core.control.loops import while_loop
from jaxlens.core.control.scans import fori_loop, map, scan
from jaxlens.core.jacobians import hessian, jacfwd, jacrev
from jaxlens.core.kernel.interpreter import (
    ConcretizationTypeError,
    Primitive,
    UnexpectedTracerError,
)
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from jaxlens.core.kernel.tree import tree_flatten, tree_leaves
from jaxlens.core.kernel.types import ShapedArray, enable_x64
from jaxlens.core.parallel.mapping import shard_map
from jaxlens.core.parallel.meshes import Mesh, PartitionSpec
from jaxlens.core.primitives.indexing import NonConcreteBooleanIndexError
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.check import check_jaxpr
from jaxlens.core.transforms.custom import custom_jvp, custom_vjp
from jaxlens.core.transforms.derivatives import grad, jvp, linearize, value_and_grad, vjp
from jaxlens.core.transforms.errors import (
    ForeignTracerError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from jaxlens.core.transforms.events import Event, listen
from jaxlens.core.transforms.jaxprs import make_jaxpr
from jaxlens.core.transforms.remat import checkpoint
from jaxlens.core.transforms.sources import named_scope
from jaxlens.core.transforms.trees import (
    register_dataclass,
    register_pytree_node,
    tree_map,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "Array",
    "ClosedJaxpr",
    "ConcretizationTypeError",
    "Event",
    "Exported",
    "ForeignTracerError",
    "Jaxpr",
    "JaxprEqn",
    "Jitted",
    "Key",
    "Literal",
    "Mesh",
    "NonConcreteBooleanIndexError",
    "PartitionSpec",
    "Primitive",
    "ShapedArray",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "Var",
    "array",
    "associative_scan",
    "block_until_ready",
    "check_jaxpr",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "deserialize",
    "device_get",
    "device_put",
    "devices",
    "enable_x64",
    "eval_jaxpr",
    "eval_shape",
    "export",
    "fori_loop",
    "from_jax",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linearize",
    "listen",
    "make_jaxpr",
    "map",
    "named_scope",
    "nn",
    "numpy",
    "pmap",
    "random",
    "reduce",
    "register_dataclass",
    "register_pytree_node",
    "scan",
    "shard_map",
    "switch",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
