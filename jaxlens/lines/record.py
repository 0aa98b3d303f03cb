"""Records what the lines of a function do while JAX traces it.

Only frames of the user's files are followed line by line; library frames are skipped. After
each line the recorder compares the variables with their earlier values, and counts the equations of
the innermost trace. No user code is called: values are described by type, numbers and short
strings by value.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from jaxlens import compat
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.facts import Bound, Event, LineTrace, TapeStep
from jaxlens.ir.spans import describe
from jaxlens.lines import equations, frames_monitored, frames_traced
from jaxlens.lines.disassembly import bytecode
from jaxlens.lines.equations import Part, alive
from jaxlens.lines.side_effects import Outside, changes, printing
from jaxlens.lines.user_frames import Left, Listener
from jaxlens.lines.values import fixed, text

MOST = 5_000  # steps in one recording
_NONE = object()
_QUIET = (ModuleType, type, FunctionType)


@dataclass(slots=True)
class _Step:
    """A step that is still being recorded."""

    event: Event
    code: CodeType
    line: int
    depth: int
    bound: list[Bound] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    printed: str = ""
    raised: str = ""
    wrote: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """A frame of user code, and the values of its variables after the last step."""

    frame: FrameType
    values: dict[str, tuple[Any, str]]
    outer: dict[str, Any]
    step: _Step


class Recorder:
    """Records one trace: `with recorder.recording(): ...`, then `recorder.line_trace(jaxpr)`."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._frames: list[_Frame] = []
        self._counts: dict[int, int] = {}
        self._equations: list[Any] = []  # keeps them alive, so that no other object gets their id
        self._core: list[Any] = []
        self._outside = Outside()
        self._thread = threading.get_ident()
        self._cut = False
        self._stop: Callable[[], None]

    @uninterrupted
    def recording(self) -> Iterator[None]:
        """Records the lines of user code that run in the block."""
        from jaxlens.core import listen  # imported here: few programs use the core

        try:
            with listen(self._hear), printing(self._print), following(self) as self._stop:
                yield
        finally:
            self._frames.clear()

    def line_trace(self, jaxpr: Any) -> LineTrace:
        """Returns the steps, each with the ids of the equations that it added to the jaxpr.

        Args:
            jaxpr: The jaxpr that the trace returned.
        """
        by_step, left = equations.assigned([step.parts for step in self._steps], jaxpr)
        # By identity: two functions of one line, such as lambdas, can have equal code.
        codes = {id(step.code): step.code for step in self._steps}
        number = {code: n for n, code in enumerate(codes)}
        steps = [
            _frozen(step, ids, number[id(step.code)])
            for step, ids in zip(self._steps, by_step, strict=True)
        ]
        if left and steps and not self._cut:
            first = self._steps[0].code
            after = _Step("after", first, first.co_firstlineno, 0)
            steps.append(_frozen(after, tuple(left)))
        self._equations.clear()
        return LineTrace(tuple(steps), self._cut, tuple(map(bytecode, codes.values())))

    def began(self, frame: FrameType, again: bool) -> bool:
        """Records the call of a user function, or the resumption of a generator."""
        self._flush()
        if self._full():
            return False
        variables = frame.f_locals
        outer = self._outside.state(frame, variables)
        step = self._begin("resume" if again else "call", frame, len(self._frames))
        self._frames.append(_Frame(frame, {}, outer, step))
        self._look(self._frames[-1], variables)
        return True

    def line(self, frame: FrameType, line: int) -> None:
        """Records a line that is about to run."""
        at = self._at(frame)
        if at is not None and not self._full():
            at.step = self._begin("line", frame, len(self._frames) - 1, line)

    def raised(self, frame: FrameType, kind: type[BaseException]) -> None:
        """Records the exception that the current line raises."""
        at = self._at(frame)
        if at is not None:
            at.step.raised = kind.__name__

    def left(self, frame: FrameType, how: Left, value: Any) -> None:
        """Records that a function returns, yields or propagates an exception."""
        at = self._at(frame)
        if at is None:
            return
        raised = at.step.raised
        last = self._begin("yield" if how == "yield" else "return", frame, len(self._frames) - 1)
        if how == "raise" and raised:
            last.bound.append(Bound("raises", raised))
        else:
            last.bound.append(Bound("yields" if how == "yield" else "returns", text(value)))
        self._frames.pop()

    def _at(self, frame: FrameType) -> _Frame | None:
        """Finishes the last step of a frame, and returns its record; None if it is not followed."""
        while self._frames and self._frames[-1].frame is not frame:
            self._frames.pop()  # ended by an exception, without a `left` event
        if not self._frames:
            return None
        self._flush()
        self._look(self._frames[-1], frame.f_locals)
        return self._frames[-1]

    def _full(self) -> bool:
        """Whether the recording has `MOST` steps; if so, stops it."""
        if len(self._steps) >= MOST:
            self._cut = True
            self._stop()
        return self._cut

    def _begin(self, event: Event, frame: FrameType, depth: int, line: int = 0) -> _Step:
        step = _Step(event, frame.f_code, line or frame.f_lineno, depth)
        self._steps.append(step)
        return step

    def _look(self, at: _Frame, variables: Any) -> None:
        """Adds to the current step the names that it bound, and its side effects."""
        step, values = at.step, at.values
        enters = step.event in ("call", "resume")
        for name, value in variables.items():
            before, before_text = values.get(name, (_NONE, ""))
            if before is value and fixed(value):
                continue
            value_text = text(value)
            if before is not value or before_text != value_text:
                values[name] = value, value_text
                if not (enters and issubclass(type(value), _QUIET)):
                    step.bound.append(Bound(name, value_text))
        now = self._outside.state(at.frame, variables)
        if now != at.outer:
            step.wrote += changes(at.outer, now)
            at.outer = now

    def _flush(self) -> None:
        """Adds the equations recorded since the last call to the current step."""
        eqns, self._core = self._core, []
        recorded = compat.recorded()
        if recorded is not None:
            key, references = recorded
            count = self._counts.get(key, 0)
            if len(references) != count:
                self._counts[key] = len(references)
                eqns = [*filter(None, map(alive, references[count:])), *eqns]
        if eqns and self._steps:
            self._equations += eqns
            step = self._frames[-1].step if self._frames else self._steps[-1]
            step.parts += map(equations.part, eqns)

    def _hear(self, event: Any) -> None:
        if event.kind == "record":
            self._core.append(event.detail["eqn"])

    def _print(self, printed: str) -> None:
        if threading.get_ident() == self._thread and self._frames:
            self._frames[-1].step.printed += printed


def following(to: Listener) -> AbstractContextManager[Callable[[], None]]:
    """Follows frames by `sys.monitoring` if it has a free tool id, else by `sys.settrace`."""
    number = frames_monitored.tool()
    return frames_traced.following(to) if number is None else frames_monitored.following(to, number)


def _frozen(step: _Step, ids: tuple[str, ...], code: int = 0) -> TapeStep:
    file = describe(step.code.co_filename)
    return TapeStep(
        step.event,
        step.code.co_filename,
        file.name,
        step.line,
        step.code.co_qualname,
        step.depth,
        tuple(step.bound),
        ids,
        step.printed,
        tuple(step.wrote),
        step.raised,
        code,
    )
