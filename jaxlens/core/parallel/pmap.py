"""pmap: the older form of `shard_map`, in which the first axis of each argument counts the devices.

    pmap(f)(x)  =  jit(shard_map(f on x[0], mesh of len(x) devices, in_specs=P("devices"), ...))(x)

It chooses its devices itself: the first ones.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from jaxlens.core.aot.device import P, make_mesh
from jaxlens.core.aot.programs import jit
from jaxlens.core.interop.from_jax import library
from jaxlens.core.parallel.mapping import shard_map
from jaxlens.core.primitives.shapes import expand_dims
from jaxlens.core.transforms.batching import counted
from jaxlens.core.transforms.trees import tree_map

_squeeze = library("lax", "squeeze")


def pmap(f: Callable[..., Any], axis_name: str = "devices", *, in_axes: Any = 0) -> Any:
    """Returns a jitted function that applies `f` to one example per device.

    Args:
        f: A function of pytrees of arrays.
        axis_name: What collectives call the axis of devices.
        in_axes: Which axis of each argument counts the devices; None where all get the same.

    Raises:
        ValueError: There are fewer devices than examples, or the arguments do not agree.
    """

    @wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree, dims, size = counted("pmap", f, args, kwargs, in_axes)

        def one(*parts: Any) -> Any:
            own = [x if d is None else _squeeze(x, [d]) for x, d in zip(parts, dims, strict=True)]
            own_args, own_kwargs = in_tree.unflatten(own)
            return tree_map(lambda x: expand_dims(x, [0]), f(*own_args, **own_kwargs))

        mesh = make_mesh((size,), (axis_name,))
        ins = tuple(P() if dim is None else P(*[None] * dim, axis_name) for dim in dims)
        return shard_map(one, mesh=mesh, in_specs=ins, out_specs=P(axis_name))(*leaves)

    return jit(mapped)
