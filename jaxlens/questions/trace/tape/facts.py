"""What Python does while tracing: unrolled loops, branches taken, side effects at trace time.

The steps are the lines that Python executed (`Capture.tape`). Their text says what they mean for
the jaxpr: an `if` on a concrete condition leaves one branch in it, and a `for` over Python values
its body once for each value.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from jaxlens.captures import Capture
from jaxlens.ir.facts import LineTrace, TapeStep
from jaxlens.ir.jaxpr.python_text import statements
from jaxlens.program.subject import ProgramFacts


@dataclass(frozen=True, slots=True)
class PythonLoop:
    """A Python loop that ran while tracing.

    Attributes:
        line: The line of its header.
        times: Number of iterations.
        equations: Number of equations that its iterations recorded together.
    """

    line: str
    times: int
    equations: int


@dataclass(frozen=True, slots=True)
class Branch:
    """An `if` that Python decided while tracing.

    Attributes:
        line: The line of its header.
        taken: Whether its body ran.
    """

    line: str
    taken: bool


@dataclass(frozen=True, slots=True)
class Tracing(ProgramFacts):
    """The steps of a trace, and what they mean for the jaxpr.

    Attributes:
        steps: The steps, in order.
        cut: Whether there were more steps than are kept.
        loops: Python loops, in the order in which they ended.
        branches: Branches by line and outcome, each once.
        printed: Lines that wrote to standard output.
        wrote: Side effects, with the line.
        notes: Notes on a step, by its number.
        after: Number of equations that JAX recorded after the function returned.
    """

    steps: tuple[TapeStep, ...]
    cut: bool
    loops: tuple[PythonLoop, ...]
    branches: tuple[Branch, ...]
    printed: tuple[str, ...]
    wrote: tuple[str, ...]
    notes: Mapping[int, tuple[str, ...]]
    after: int


def facts(capture: Capture) -> Tracing:
    """Returns the steps of a trace and what they mean.

    Raises:
        UnavailableError: The capture has no tape, and its call cannot be traced again.
    """
    recorded: LineTrace = capture.tape
    steps = recorded.steps
    keys = {step.key for step in steps}
    sources = capture.sources.items()
    headers = {key: _headers(source.text) for key, source in sources if key in keys}
    notes: defaultdict[int, list[str]] = defaultdict(list)
    walk = _Walk(steps, headers, notes)
    for n, step in enumerate(steps):
        if step.printed:
            notes[n].append("prints now only")
        notes[n] += [f"now only: {effect}" for effect in step.wrote]
        if step.raised and step.event == "line":
            notes[n].append(f"raises {step.raised}")
    effects = [f"{w.partition(':')[0]} ({where(s)})" for s in steps for w in s.wrote]
    return Tracing(
        steps,
        recorded.cut,
        tuple(loop for loop in walk.loops if loop.times),
        tuple(dict.fromkeys(walk.branches)),
        tuple(dict.fromkeys(where(s) for s in steps if s.printed)),
        tuple(dict.fromkeys(effects)),
        {n: tuple(texts) for n, texts in notes.items() if texts},
        sum(len(s.made) for s in steps if s.event == "after"),
        _subject=capture,
    )


def where(step: TapeStep) -> str:
    return f"{step.file}:{step.line}"


_Headers = Mapping[int, tuple[bool, range]]
"""By line of a loop's or branch's header: whether it is a branch, and the lines of its body."""


def _headers(text: str) -> _Headers:
    found = {}
    for node in statements(text):
        if isinstance(node, ast.For | ast.While | ast.If):
            last = node.body[-1].end_lineno or node.body[-1].lineno
            body = range(node.body[0].lineno, last + 1)
            if body.start > node.lineno:  # else header and body are on one line
                found[node.lineno] = isinstance(node, ast.If), body
    return found


@dataclass(slots=True)
class _Running:
    """A loop whose iterations are being counted."""

    header: int
    inside: range
    times: int = 0
    equations: int = 0

    def contains(self, step: TapeStep) -> bool:
        """Whether a step belongs to the loop."""
        return step.event != "return" and (step.line == self.header or step.line in self.inside)

    def ended(self, file: str) -> PythonLoop:
        """Returns the loop with its counts."""
        return PythonLoop(f"{file}:{self.header}", self.times, self.equations)


class _Walk:
    """Goes through the steps, and finds the loops and branches that they executed.

    `frames` is the Python call stack. A loop is open in its frame until a step is outside its
    lines; the step after a header says whether its body is executed:

        4  for w in ws:      header
        5      x = w @ x     in the body: iteration 1
        4, 5, 4, 6           back at the header: iteration 2; outside of 4-5: the loop has ended

    Args:
        steps: The steps.
        headers: The loops and branches of each file, by line.
        notes: Notes by step, which are added to.
    """

    def __init__(
        self,
        steps: Sequence[TapeStep],
        headers: Mapping[str, _Headers],
        notes: Mapping[int, list[str]],
    ) -> None:
        self.loops: list[PythonLoop] = []
        self.branches: list[Branch] = []
        self._steps, self._notes = steps, notes
        frames: list[tuple[list[_Running], int]] = []  # open loops, step of a header or -1
        paused: dict[tuple[str, str], list[_Running]] = {}  # open loops of suspended generators
        for n, step in enumerate(steps):
            name = step.key, step.function
            if step.event in ("call", "resume"):
                frames.append((paused.pop(name, []) if step.event == "resume" else [], -1))
            if not frames:
                continue
            running, header = frames[-1]
            known = headers.get(step.key, {})
            if header >= 0:
                self._decide(header, n, known, running)
            while running and not running[-1].contains(step):
                self.loops.append(running.pop().ended(step.file))
            for loop in chain.from_iterable(open_loops for open_loops, _ in frames):
                loop.equations += len(step.made)
            is_header = step.line in known and step.event == "line"
            frames[-1] = running, n if is_header else -1
            if step.event == "yield":
                paused[name] = running
                frames.pop()
            elif step.event == "return":
                self.loops += [loop.ended(step.file) for loop in reversed(running)]
                frames.pop()

    def _decide(self, at: int, n: int, headers: _Headers, running: list[_Running]) -> None:
        """Records what became of the header at step `at`, by the step `n` after it."""
        header, line = self._steps[at], self._steps[at].line
        if header.raised:
            return  # the header raised: it has no outcome
        is_branch, inside = headers[line]
        entered = self._steps[n].line in inside and self._steps[n].event == "line"
        if is_branch:
            self.branches.append(Branch(where(header), entered))
            side = "True: this branch alone is" if entered else "False: its body is not"
            self._notes[at].append(f"known now, {side} traced")
            return
        if not entered:
            return
        loop = next((loop for loop in running if loop.header == line), None)
        if loop is None:
            loop = _Running(line, inside)
            running.append(loop)
        loop.times += 1
        self._notes[n].append(f"pass {loop.times} of the loop of line {line}")
