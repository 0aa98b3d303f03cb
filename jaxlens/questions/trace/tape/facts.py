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
    loops, branches, notes = _walk(steps, headers)
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
        tuple(loops),
        tuple(dict.fromkeys(branches)),
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
    """A loop whose passes are being counted: its line, the lines of its body, the counts."""

    line: str
    inside: range
    times: int = 0
    equations: int = 0


def _walk(
    steps: Sequence[TapeStep], headers: Mapping[str, _Headers]
) -> tuple[list[PythonLoop], list[Branch], defaultdict[int, list[str]]]:
    """Returns the loops and branches that the steps executed, and notes by step.

    `frames` is the Python call stack. A loop is open in its frame until a step is outside its
    lines; the step after a header says whether its body is executed:

        4  for w in ws:      header
        5      x = w @ x     in the body: iteration 1
        4, 5, 4, 6           back at the header: iteration 2; outside of 4-5: the loop has ended

    Args:
        steps: The steps.
        headers: The loops and branches of each file, by line.
    """
    loops: list[PythonLoop] = []
    branches: list[Branch] = []
    notes: defaultdict[int, list[str]] = defaultdict(list)
    frames: list[tuple[dict[int, _Running], int]] = []  # open loops, step of a header or -1
    paused: dict[tuple[str, str], dict[int, _Running]] = {}  # open loops of suspended generators
    for n, step in enumerate(steps):
        name = step.key, step.function
        if step.event in ("call", "resume"):
            frames.append((paused.pop(name, {}) if step.event == "resume" else {}, -1))
        if not frames:
            continue
        running, at = frames[-1]
        known = headers.get(step.key, {})
        if at >= 0:
            header, line = where(steps[at]), steps[at].line
            is_branch, inside = known[line]
            entered = step.line in inside and step.event == "line"
            if is_branch:
                branches.append(Branch(header, entered))
                side = "True: this branch alone is" if entered else "False: its body is not"
                notes[at].append(f"known now, {side} traced")
            elif entered:
                loop = running.setdefault(line, _Running(header, inside))
                loop.times += 1
                notes[n].append(f"pass {loop.times} of the loop of line {line}")
        while running and not _is_in(step, *next(reversed(running.items()))):
            _, loop = running.popitem()
            loops.append(PythonLoop(loop.line, loop.times, loop.equations))
        for loop in chain.from_iterable(open_loops.values() for open_loops, _ in frames):
            loop.equations += len(step.made)
        # A header that raised has no outcome.
        is_header = step.line in known and step.event == "line" and not step.raised
        frames[-1] = running, n if is_header else -1
        if step.event == "yield":
            paused[name] = running
        if step.event in ("yield", "return"):
            frames.pop()
    return loops, branches, notes


def _is_in(step: TapeStep, header: int, loop: _Running) -> bool:
    """Whether a step belongs to a loop with the header on a line."""
    return step.event != "return" and (step.line == header or step.line in loop.inside)
