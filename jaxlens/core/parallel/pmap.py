"""pmap: the older form of `shard_map`, in which the first axis of each argument counts the devices.

    pmap(f)(x)  =  jit(shard_map(f on x[0], mesh of len(x) devices, in_specs=P("devices"), ...))(x)

It chooses its devices itself.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from jaxlens.core.aot.device import devices as all_devices
from jaxlens.core.aot.programs import jit
from jaxlens.core.kernel.tree import tree_flatten
from jaxlens.core.parallel.mapping import shard_map
from jaxlens.core.parallel.meshes import Mesh, P
from jaxlens.core.primitives.shapes import expand_dims, squeeze
from jaxlens.core.transforms.batching import counted
from jaxlens.core.transforms.trees import prefix_leaves, tree_map


def pmap(
    f: Callable[..., Any],
    axis_name: str = "devices",
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    devices: Sequence[Any] | None = None,
) -> Any:
    """Returns a jitted function that applies `f` to one example per device.

    Args:
        f: A function of pytrees of arrays.
        axis_name: What collectives call the axis of devices.
        in_axes: Which axis of each argument counts the devices; None where all get the same.
        out_axes: Where that axis is to be in the results, from 0; None for one of equal ones.
        devices: Which; the first ones of the default backend.

    Raises:
        ValueError: There are fewer devices than examples, or the arguments do not agree.
    """

    @wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree, dims, size = counted("pmap", f, args, kwargs, in_axes)
        present = list(devices or all_devices())
        if size > len(present):
            raise ValueError(
                f"pmap: {size} examples need {size} devices, there are {len(present)}."
            )

        def one(*parts: Any) -> Any:
            own = [x if d is None else squeeze(x, [d]) for x, d in zip(parts, dims, strict=True)]
            own_args, own_kwargs = in_tree.unflatten(own)
            results, out_tree = tree_flatten(f(*own_args, **own_kwargs))
            pairs = zip(results, prefix_leaves(out_axes, out_tree, "pmap out_axes"), strict=True)
            return out_tree.unflatten([x if d is None else expand_dims(x, [d]) for x, d in pairs])

        mesh, ins = Mesh(present[:size], axis_name), tuple(map(spec_of, dims))
        outs = tree_map(spec_of, out_axes, is_leaf=lambda d: d is None)
        return shard_map(one, mesh=mesh, in_specs=ins, out_specs=outs)(*leaves)

    def spec_of(dim: int | None) -> P:
        return P() if dim is None else P(*[None] * dim, axis_name)

    return jit(mapped)
