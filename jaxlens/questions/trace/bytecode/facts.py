"""Bytecode beside equations: what each line is to Python, and what it left in the jaxpr.

Python compiles a line once, whatever runs. JAX sees only what ran: a loop's body has its
instructions once and its equations once for each pass, and a branch that was not taken has
instructions alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import BytecodeInstruction, FunctionBytecode, LineTrace, Source
from jaxlens.ir.jaxpr.python_text import extent, statements
from jaxlens.program.sentences import Quoter, covered
from jaxlens.program.subject import ProgramFacts

_Place = tuple[int, int]  # index of the function, line
_ENTERS = {"RESUME", "MAKE_CELL", "COPY_FREE_VARS"}


@dataclass(frozen=True, slots=True)
class BytecodeLine:
    """One line of a function that ran while JAX traced.

    Attributes:
        line: File and number ("cell 3:4").
        text: Its text.
        ran: How often it ran; of the line of a `def`, how often the function was called.
        instructions: Its bytecode.
        pieces: The text that each instruction was compiled from; "" where it is unknown or has
            several lines.
        equations: Ids of the equations that were recorded while it ran.
        inside: Number of equations that functions of the user recorded which it called.
    """

    line: str
    text: str
    ran: int
    instructions: tuple[BytecodeInstruction, ...]
    pieces: tuple[str, ...]
    equations: tuple[str, ...]
    inside: int

    @property
    def enters(self) -> bool:
        """Whether it is the line of a `def`, with nothing but what begins a call."""
        return {row.name for row in self.instructions} <= _ENTERS


@dataclass(frozen=True, slots=True)
class BytecodeFunction:
    """A function that ran while JAX traced: its name and its lines, in the order of the file."""

    name: str
    lines: tuple[BytecodeLine, ...]


@dataclass(frozen=True, slots=True)
class Bytecode(ProgramFacts):
    """Functions that ran while JAX traced, with their bytecode and equations line by line.

    Attributes:
        functions: In the order of their first call.
        after: Number of equations that JAX recorded after the function returned.
        cut: Whether more ran than is kept.
    """

    functions: tuple[BytecodeFunction, ...]
    after: int = 0
    cut: bool = False

    @property
    def lines(self) -> tuple[BytecodeLine, ...]:
        """All lines, function by function."""
        return tuple(line for function in self.functions for line in function.lines)


def facts(capture: Capture) -> Bytecode:
    """Returns the bytecode of the functions that ran, and the equations of their lines.

    Raises:
        UnavailableError: The capture's call cannot be traced again, or its file has no bytecode.
    """
    trace = capture.tape
    if trace.steps and not trace.code:
        raise UnavailableError(
            "this capture was saved without bytecode; ask where its function is: "
            "jaxlens.bytecode(f, x)"
        )
    made: defaultdict[_Place, list[str]] = defaultdict(list)
    inside: Counter[_Place] = Counter()
    active: list[_Place] = []  # the line that each open function is at
    for step in trace.steps:
        if step.event == "after":
            continue
        place = step.code, step.line
        active[step.depth :] = [place]
        made[place] += step.made
        for caller in set(active[:-1]) - {place}:
            inside[caller] += len(step.made)
    ran = Counter(_runs(trace, capture.sources))
    quote = Quoter(capture.sources)
    functions = tuple(
        BytecodeFunction(code.function, tuple(_lines(n, code, quote, ran, made, inside)))
        for n, code in enumerate(trace.code)
    )
    after = sum(len(step.made) for step in trace.steps if step.event == "after")
    return Bytecode(functions, after, trace.cut, _subject=capture)


def _runs(trace: LineTrace, sources: Mapping[str, Source]) -> Iterator[_Place]:
    """Yields a line each time that it ran, and that of a `def` each time that it was called.

    Python comes back to the first line of a statement of several lines when it has evaluated the
    others, which is no second run.
    """
    enters = [
        {row.line for row in function.instructions}
        - {row.line for row in function.instructions if row.name not in _ENTERS}
        for function in trace.code
    ]
    keys = {function.key for function in trace.code} & sources.keys()
    statements = {key: _statements(sources[key].text) for key in keys}
    opened: dict[int, tuple[int, set[int]]] = {}  # statement and its lines, by depth
    for step in trace.steps:
        line, place = step.line, (step.code, step.line)
        if step.event == "line":
            start = statements.get(step.key, {}).get(line, 0)
            statement, lines = opened.get(step.depth, (0, set()))
            if not start or start != statement:
                lines = set()
            opened[step.depth] = start, lines
            if line not in lines:
                lines.add(line)
                yield place
        elif step.event == "call" and line in enters[step.code]:
            yield place


def _statements(text: str) -> dict[int, int]:
    """Returns the first line of each statement of several lines that holds no other, by line."""
    return {
        line: first
        for first, _, last, _ in (extent(s) for s in statements(text) if not hasattr(s, "body"))
        for line in range(first, last + 1)
        if first < last
    }


def _lines(
    number: int,
    code: FunctionBytecode,
    quote: Quoter,
    ran: Mapping[_Place, int],
    made: Mapping[_Place, Sequence[str]],
    inside: Mapping[_Place, int],
) -> Iterator[BytecodeLine]:
    rows: defaultdict[int, list[BytecodeInstruction]] = defaultdict(list)
    for row in code.instructions:
        rows[row.line].append(row)
    for line in sorted(rows):
        place, text = (number, line), quote.line(code.key, line)
        yield BytecodeLine(
            f"{code.file}:{line}",
            text.strip(),
            ran.get(place, 0),
            tuple(rows[line]),
            tuple(
                covered(text, row.column, row.end_column) if row.end_line <= row.line else ""
                for row in rows[line]
            ),
            tuple(made.get(place, ())),
            inside.get(place, 0),
        )
