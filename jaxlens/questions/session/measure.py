"""Watches the cells of a session: also the memory, captured arrays and reshards of each program.

All of it is read from objects that JAX has in hand at the events of a compile; nothing is traced or
compiled for it. Nothing is read at a call that JAX's caches serve.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jaxlens.compat import events
from jaxlens.compat.events import CompileResult, Stack
from jaxlens.ir.compile_log import CompileStepKind
from jaxlens.ir.hlo import shardings
from jaxlens.listen.listen import CompileWatch
from jaxlens.listen.pending_call import PendingCall
from jaxlens.questions.arrays.measure import live_arrays
from jaxlens.questions.session.replications import MARK, described, replications
from jaxlens.stages.compile import analyses
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.trace.captured_arrays import constants, survey

LARGE = 10_000_000  # bytes of captured arrays that are reported
_LOOKS, _GROWTH = 5, 10_000_000  # looks in a row at growing arrays, and the bytes they grew by
_SHARE = 500  # a look at the arrays follows after this many times the duration of the last one
_ELIDED = 64  # elements from which a constant is not printed


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


class ArrayGrowth:
    """Looks at the bytes of the process's arrays after cells, at less than 0.2 % of their time.

    Arrays of a name that a cell defines are no growth: a notebook begins with cells that make its
    data. Neither does a cell count that leaves the bytes as they were.

    Args:
        namespace: The variables of the user's cells.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._next = 0.0
        self._bytes: list[int] = []
        self._names: set[str] = set()
        self._total = 0
        self._named = 0  # bytes that the arrays of new names added

    def look(self) -> tuple[int, int] | None:
        """Returns bytes before and now if they grew at each of the last looks by much; else None.

        Arrays that share a buffer count each.
        """
        begun = time.perf_counter()
        if begun < self._next or not events.has_backends():
            return None
        new = [n for n in list(self._namespace) if n not in self._names and n[:1] != "_"]
        self._names.update(new)
        before, self._total = self._total, live_arrays.total()
        named = live_arrays.bytes_of([self._namespace[name] for name in new])
        self._named += min(named, max(self._total - before, 0))  # a second name adds nothing
        grown = self._total - self._named
        if self._bytes[-1:] != [grown]:
            self._bytes = [*self._bytes[-_LOOKS:], grown]
        now = time.perf_counter()
        self._next = now + _SHARE * (now - begun)
        first, *rest = self._bytes
        grew = all(a < b for a, b in zip(self._bytes, rest, strict=False))
        if len(rest) < _LOOKS or not grew or rest[-1] - first < _GROWTH:
            return None
        self._bytes = rest[-1:]
        return first + self._named, rest[-1] + self._named
