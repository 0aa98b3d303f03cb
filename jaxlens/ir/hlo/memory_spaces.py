"""Memory spaces: in which of them the parts of a value lie, and what they are called."""

import re
from collections.abc import Iterator

from jaxlens.ir.graph import Type

# XLA writes `S(1)` into the layout of what is outside main memory (HBM on GPU and TPU).
_SPACE = re.compile(r"S\((\d{1,3})\)")
# Spaces of other platforms have no name. Source: XLA's layout.h, and Mosaic's memory spaces.
HOST = "host memory"
_NAMES = {
    ("tpu", 1): "VMEM",
    ("tpu", 2): "SMEM",
    ("tpu", 5): HOST,
    ("cuda", 5): HOST,
    ("gpu", 5): HOST,
}


def by_space(type_: Type) -> dict[int, int] | None:
    """The bytes of a value by the number of the memory space; None where a size is unknown."""
    sizes: dict[int, int] = {}
    for part in _arrays(type_):
        size, space = part.bytes, space_of(part)
        if size is None:
            return None
        sizes[space] = sizes.get(space, 0) + size
    return sizes


def _arrays(type_: Type) -> Iterator[Type]:
    pending = [type_]
    while pending:
        part = pending.pop()
        if part.dtype:
            yield part
        else:
            pending.extend(part.parts)


def space_name(number: int, platform: str) -> str:
    """The name of a memory space, `VMEM`; `memory space S(6)` for an unknown one."""
    if not number:
        return "HBM" if platform in ("tpu", "cuda", "gpu", "rocm") else "main memory"
    return _NAMES.get((platform, number), f"memory space S({number})")


def space_of(type_: Type) -> int:
    """The memory space of an array; 0 for main memory."""
    match = _SPACE.search(type_.layout)
    return int(match[1]) if match else 0
