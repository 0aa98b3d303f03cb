"""Reads XLA's warnings of an involuntary full rematerialization: a reshard by replication.

XLA's SPMD partitioner writes them to stderr, and nowhere else. They name the instruction, both
shardings and the stack frame. jaxlib 0.10 to 0.12 write "cannot go from sharding A to B efficiently
for HLO operation OP"; before, it was "was not able to go from sharding A to B without ...".
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from jaxlens.ir.compile_log import Replication
from jaxlens.ir.hlo.frames import Frames, origin
from jaxlens.ir.hlo.shardings import partitioned, spec_text, tiling

MARK = "Involuntary full rematerialization"
_WARNING = re.compile(
    rf"{MARK}\. [^\n]*? from sharding (\{{.+?\}}) to (\{{.+?\}}) (?:efficiently|without)"
    r"[^\n]*?HLO operation:? %?(\S+) = (\w+\[[\d,]*\])([^\n]*)"
)
_METADATA = re.compile(r"metadata=(\{(?:[^{}\"]|\"[^\"\n]*\")*\})")


def replications(warnings: str, optimized: str) -> Iterator[Replication]:
    """Yields what the warnings say, each value once.

    Args:
        warnings: Text that was written to stderr during a compile.
        optimized: Text of the program that was compiled, whose tables have the stack frames.
    """
    frames = Frames()
    frames.read(optimized.partition("\n\n%")[0].partition("\n\nENTRY")[0].split("\n")[1:])
    seen = set()
    for old, new, instruction, type, rest in _WARNING.findall(warnings):
        if (instruction, old, new) not in seen:
            seen.add((instruction, old, new))
            metadata = _METADATA.search(rest)
            lines = origin(metadata[1], frames)[1] if metadata else ()
            yield Replication(instruction, type, old, new, lines)


def described(one: Replication) -> Replication:
    """Adds the whole type and both PartitionSpecs, from the shardings and the mesh."""
    dtype, _, sizes = one.piece.partition("[")
    shape = [int(size) for size in sizes[:-1].split(",") if size]
    devices = math.prod(size for _, size in one.mesh)
    old, new = (tiling(text, len(shape), devices) for text in (one.old, one.new))
    before, after = partitioned(old, one.mesh), partitioned(new, one.mesh)
    if old is None or before is None:
        return one
    whole = ",".join(str(n * k) for n, k in zip(shape, old.tiles, strict=True))
    specs = spec_text(before), spec_text(after)
    return replace(one, whole=f"{dtype}[{whole}]", old_spec=specs[0], new_spec=specs[1])
