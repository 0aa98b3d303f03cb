"""A tracing and transform core from scratch: a small JAX that can be read in an evening.

`core/README.md` names the files in reading order.
"""

# First: jax tells jaxlib to be quiet, which must be said before jaxlib is loaded.
from jaxlens.core.device import Array, array, block_until_ready, device_get, device_put, devices

# isort: split
from jaxlens.core import lax, nn, numpy, random
from jaxlens.core.avals import ShapedArray, enable_x64
from jaxlens.core.batching import vmap
from jaxlens.core.control.branches import cond, switch
from jaxlens.core.control.folds import associative_scan, reduce
from jaxlens.core.control.loops import while_loop
from jaxlens.core.control.scans import fori_loop, map, scan
from jaxlens.core.custom import custom_jvp, custom_vjp
from jaxlens.core.derivatives import grad, hessian, jacfwd, jacrev, linearize, value_and_grad, vjp
from jaxlens.core.exported import Exported, deserialize, export
from jaxlens.core.forward import jvp
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, check_jaxpr
from jaxlens.core.parallel.mapping import pmap, shard_map
from jaxlens.core.parallel.meshes import Mesh, PartitionSpec
from jaxlens.core.primitives.indexing import NonConcreteBooleanIndexError
from jaxlens.core.programs import Jitted, Key, eval_shape, jit
from jaxlens.core.remat import checkpoint
from jaxlens.core.sources import Event, listen, named_scope
from jaxlens.core.staging import eval_jaxpr, make_jaxpr
from jaxlens.core.tracers import (
    ConcretizationTypeError,
    ForeignTracerError,
    Primitive,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from jaxlens.core.trees import (
    register_dataclass,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "Array", "ClosedJaxpr", "ConcretizationTypeError", "Event", "Exported", "ForeignTracerError",
    "Jaxpr", "JaxprEqn", "Jitted", "Key", "Literal", "Mesh", "NonConcreteBooleanIndexError",
    "PartitionSpec", "Primitive", "ShapedArray", "TracerArrayConversionError",
    "TracerBoolConversionError", "TracerIntegerConversionError", "UnexpectedTracerError", "Var",
    "array", "associative_scan", "block_until_ready", "check_jaxpr", "checkpoint", "cond",
    "custom_jvp", "custom_vjp", "deserialize", "device_get", "device_put", "devices", "enable_x64",
    "eval_jaxpr", "eval_shape", "export", "fori_loop", "grad", "hessian", "jacfwd", "jacrev", "jit",
    "jvp", "lax", "linearize", "listen", "make_jaxpr", "map", "named_scope", "nn", "numpy", "pmap",
    "random", "reduce", "register_dataclass", "register_pytree_node", "scan", "shard_map", "switch",
    "tree_flatten", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten", "value_and_grad",
    "vjp", "vmap", "while_loop",
]  # fmt: skip
