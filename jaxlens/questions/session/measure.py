"""Watches the cells of a session: also the memory and captured arrays of each program.

All of it is read from objects that JAX has in hand at the events of a compile; nothing is traced or
compiled for it. Nothing is read at a call that JAX's caches serve.
"""

from jaxlens.compat.events import CompileResult, Stack
from jaxlens.ir.compile_log import CompileStepKind
from jaxlens.listen.listen import CompileWatch
from jaxlens.listen.pending_call import PendingCall
from jaxlens.stages.compile import analyses
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.trace.captured_arrays import constants, survey

LARGE = 10_000_000  # bytes of captured arrays that are reported


class CellWatch(CompileWatch):
    """A watch that does not end with a cell."""

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
        """Reads a program's memory, when it is compiled."""
        if compiled is None or call.role != "user":
            return
        needed = analyses.memory(LoadedExecutable(compiled.executable)).needed
        call.bytes = None if needed is None else needed + (call.bytes or 0)
