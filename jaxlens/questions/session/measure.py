"""Watches the cells of a session: also the memory, captured arrays and reshards of each program.

All of it is read from objects that JAX has in hand at the events of a compile; nothing is traced or
compiled for it. Nothing is read at a call that JAX's caches serve.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from jaxlens.compat.events import CompileResult, Stack
from jaxlens.ir.compile_log import CompileStepKind, Replication
from jaxlens.ir.hlo import shardings
from jaxlens.ir.hlo.frames import Frames, origin
from jaxlens.ir.hlo.shardings import partitioned, spec_text, tiling
from jaxlens.listen.listen import CompileWatch, PendingCall
from jaxlens.stages.compile import analyses
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.trace.captured_arrays import constants, survey

LARGE = 10_000_000  # bytes of captured arrays that are reported
_ELIDED = 64  # elements from which a constant is not printed
# XLA's SPMD partitioner warns of a reshard by replication on stderr, and nowhere else. It names the
# instruction, both shardings and the stack frame. jaxlib 0.10 to 0.12 write "cannot go from
# sharding A to B efficiently for HLO operation OP"; before, it was "was not able to go from ...".
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


class CellWatch(CompileWatch):
    """A watch that does not end with a cell.

    Args:
        stderr: Returns what was written to stderr since it was last called, by C++ too; it is
            called at the end of the compile of a program for several devices.
    """

    def __init__(self, stderr: Callable[[], str]) -> None:
        super().__init__()
        self._stderr = stderr

    def began(self, kind: CompileStepKind, call: PendingCall, stack: Stack) -> None:
        """Reads the large arrays that a program closes over, when it is lowered."""
        if kind != "lower" or call.role != "user" or stack.program is None:
            return
        found = survey(stack.program)
        call.bytes = found.bytes  # they are copied into the executable
        if found.bytes >= LARGE:
            function = call.key.function() if call.key is not None else None
            call.captured = tuple(constants(found, function or (lambda: None)))

    def ended(
        self, kind: CompileStepKind, call: PendingCall, compiled: CompileResult | None
    ) -> None:
        """Reads a program's memory, and what XLA wrote about it, when it is compiled."""
        if compiled is None or call.role != "user":
            return
        executable, module = LoadedExecutable(compiled.executable), compiled.module
        needed = analyses.memory(executable).needed
        call.bytes = None if needed is None else needed + (call.bytes or 0)
        if not _has_partitions(module) or MARK not in (text := self._stderr()):
            return
        asm = module.operation.get_asm(large_elements_limit=_ELIDED, enable_debug_info=False)
        mesh = shardings.axes(asm)
        found = replications(text, executable.as_text())
        call.replicated = tuple(described(replace(one, mesh=mesh)) for one in found)


def _has_partitions(module: Any) -> bool:
    attributes = module.operation.attributes if module is not None else {}
    name = "mhlo.num_partitions"
    return name in attributes and attributes[name].value > 1
