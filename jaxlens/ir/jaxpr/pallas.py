"""Describes the grid and the blocks of a `pallas_call`, which JAX prints as one long object.

Only attribute names are used (`grid`, `block_mappings`, `block_shape`, `index_map_jaxpr`).
"""

from collections.abc import Mapping
from typing import Any

from jaxlens.ir.jaxpr.bodies import opened
from jaxlens.ir.jaxpr.types import notation, type_of

BLOCK = ".block"
INDEX_MAP = ".index_map"


def with_blocks(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a kernel's parameters, its grid mapping as `grid` and two for each block, first.

    For a block of the kernel's parameter `x_ref`, `x_ref.block` is "(64, 32) of f32[256,128]", the
    shape of a block and the array that it is cut from, and `x_ref.index_map` the jaxpr that gives
    the block's place from the indices of the grid. A dynamic size in `grid` is "?".
    """
    mapping = params.get("grid_mapping")
    sizes, blocks = getattr(mapping, "grid", None), getattr(mapping, "block_mappings", None)
    if sizes is None or blocks is None:
        return params
    found: dict[str, Any] = {}
    found["grid"] = _tuple([str(size) if isinstance(size, int) else "?" for size in sizes])
    names = _names(params.get("jaxpr"), int(getattr(mapping, "num_index_operands", 0)), len(blocks))
    for name, block in zip(names, blocks, strict=True):
        array = notation(type_of(block.array_aval))
        pipeline = getattr(block, "pipeline_mode", None)
        more = "" if pipeline is None else f", {pipeline}"
        shape = _tuple(list(map(_size, block.block_shape)))
        found[name + BLOCK] = f"{shape} of {array}{more}"
        found[name + INDEX_MAP] = block.index_map_jaxpr
    rest = {name: params[name] for name in sorted(params) if name != "grid_mapping"}
    return {**found, **rest}


def _names(kernel: Any, first: int, count: int) -> list[str]:
    """Returns what the kernel calls the blocks; they come after the scalars read in advance."""
    info = getattr(opened(kernel), "debug_info", None)
    names = getattr(info, "arg_names", None) or ()
    names = names[first : first + count]
    if len(names) < count or not all(isinstance(name, str) and name for name in names):
        return [f"ref{n}" for n in range(count)]
    return list(names)


def _size(size: Any) -> str:
    """Returns "64" for `Blocked(64)`, "squeezed" for `Squeezed()`, else kind and size."""
    number = getattr(size, "block_size", size)
    kind = type(size).__name__
    if kind == "Blocked" or isinstance(size, int):
        return str(number)
    return kind.lower() if number is size else f"{kind.lower()} {number}"


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
