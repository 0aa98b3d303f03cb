"""Compares what the processes of one job compiled together, after the fact.

Under `jax.distributed` all processes must run the same programs in the same order; where one does
not, all wait in a collective. A program that is for the devices of several processes is compiled by
each of them, so the first compile that differs names what went apart.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from jaxlens.errors import LensError
from jaxlens.ir.compile_log import KeyPart
from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Node
from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.sharding.facts import COLLECTIVES

StageOf = Callable[[str, str], Stage | None]
"""Gives the stage of a program, by the program's name and the stage's; None if it is not there."""

_FEW = 3  # differences of one kind that are named
_LONG = 120  # characters of a line of a program


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first program that two processes of one job did not compile alike.

    Attributes:
        position: Its position among the programs of several processes, from 1.
        left: The process with the lowest index.
        right: The process that differs from it.
        first: What the one compiled there; None for nothing.
        second: What the other compiled there; None for nothing.
        others: How many more processes differ there.
        differences: What differs, a sentence each; the first is the cause, as far as is known.
        waits: The first collective that does not fit, in which processes wait for each other if
            they run the program; "" for none, or if it is not known.
    """

    position: int
    left: ProcessRecord
    right: ProcessRecord
    first: RecordedCompile | None
    second: RecordedCompile | None
    others: int
    differences: tuple[str, ...]
    waits: str = ""

    @property
    def function(self) -> str:
        """Name of the function."""
        compile = self.first or self.second
        return compile.call.function if compile else ""


def attempts(job: JobRecord) -> list[tuple[ProcessRecord, ...]]:
    """Returns the processes of each start of the job, in order: a folder may have several.

    Where a start has no identity (an older record, a JAX without a store), the n-th processes of
    each index are one.
    """
    starts: dict[tuple[int, str, int], list[ProcessRecord]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for process in job.processes:
        index, count, start = process.process.index, process.process.count, process.process.start
        if not start:
            seen[count, index] += 1
        starts.setdefault((count, start, 0 if start else seen[count, index]), []).append(process)
    return sorted(map(tuple, starts.values()), key=lambda start: start[0].process.started)


def together(process: ProcessRecord) -> tuple[RecordedCompile, ...]:
    """Returns the compiles of programs that are for devices of several processes."""
    return tuple(c for c in process.compiles if len(c.processes) > 1)


def mismatch(processes: Sequence[ProcessRecord], stage_of: StageOf) -> Mismatch | None:
    """Returns the first difference between processes of one start; None if there is none."""
    if len(processes) < 2:
        return None
    left, *rest = sorted(processes, key=lambda p: p.process.index)
    found = []
    for right in rest:
        both = {left.process.index, right.process.index}
        shared = ([c for c in together(p) if both <= {*c.processes}] for p in (left, right))
        pairs = zip_longest(*shared)
        for position, (first, second) in enumerate(pairs, 1):
            if first is None or second is None or not _same(first, second):
                found.append((position, right, first, second))
                break
    if not found:
        return None
    position, right, first, second = min(found, key=lambda row: row[0])
    others = sum(row[0] == position for row in found) - 1
    names = f"process {left.process.index}", f"process {right.process.index}"
    differences = tuple(_differences(first, second, names, stage_of))
    waits = _waits(first, second, names, stage_of)
    return Mismatch(position, left, right, first, second, others, differences, waits)


def _same(first: RecordedCompile, second: RecordedCompile) -> bool:
    a, b = first.call, second.call
    is_same = (a.function, a.program) == (b.function, b.program)
    return is_same and not _other_constants(first, second)


def _other_constants(first: RecordedCompile, second: RecordedCompile) -> list[str]:
    """Returns the constants whose values differ, of those that both records have."""
    pairs = enumerate(zip(first.constants, second.constants, strict=False))
    known = ((n, a) for n, (a, b) in pairs if a.digest and b.digest and a.digest != b.digest)
    return [f"constant {n} ({a.type})" for n, a in known]


def _differences(
    first: RecordedCompile | None,
    second: RecordedCompile | None,
    names: tuple[str, str],
    stage_of: StageOf,
) -> Iterator[str]:
    if first is None or second is None:
        return
    a, b = first.call, second.call
    if a.function != b.function:
        yield f"{names[0]} compiled {a.function}, {names[1]} {b.function}"
        return
    causes = [*parts_differ(a.parts, b.parts, names)]
    if first.key_digest != second.key_digest and first.parts_left_out and a.parts == b.parts:
        causes.append(f"an argument beyond the {len(a.parts)} that are recorded differs")
    if other := _other_constants(first, second):
        values = "have other values" if len(other) > 1 else "has other values"
        causes.append(f"an array that it closes over, {listed(other, _FEW)}, {values}")
    yield from causes
    if causes:
        return
    for name in ("jaxpr", "stablehlo"):
        stages = [stage_of(c.program, name) if c.program else None for c in (first, second)]
        if stages[0] and stages[1] and stages[0].text != stages[1].text:
            yield _line(stages[0], stages[1], names)
            return
    if not (first.program and second.program):
        yield "the record does not have both programs, whose lines could be compared"


def parts_differ(
    a: Sequence[KeyPart], b: Sequence[KeyPart], names: tuple[str, str]
) -> Iterator[str]:
    """Yields what differs between two keys: the type of an argument, a static value, an option."""
    left, right = ({(p.kind, p.name): p.text for p in parts} for parts in (a, b))
    both = [key for key in left if key in right and left[key] != right[key]]
    texts = [f"{n} is {left[k, n]} in {names[0]}, {right[k, n]} in {names[1]}" for k, n in both]
    if texts:
        yield listed(texts, _FEW)
    for here, there, name in ((left, right, names[0]), (right, left, names[1])):
        alone = [part for kind, part in here if (kind, part) not in there]
        if alone:
            yield f"only {name} has {listed(alone, _FEW)}"


def _line(left: Stage, right: Stage, names: tuple[str, str]) -> str:
    """Returns the first line that differs, and the user's line that made it."""
    pairs = enumerate(zip_longest(left.text.split("\n"), right.text.split("\n"), fillvalue=""), 1)
    number, (a, b) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    a, b = a.strip()[:_LONG], b.strip()[:_LONG]
    owner = _owner(left, right)
    made = f" ({owner})" if owner else ""
    name = left.info.title
    return f"line {number} of the {name}{made} is `{a}` in {names[0]}, `{b}` in {names[1]}"


def _owner(left: Stage, right: Stage) -> str:
    """Returns the user's line of the first node that differs; "" where that is unknown."""
    try:
        pairs = zip(left.module.nodes(), right.module.nodes(), strict=False)
        found = next((a for a, b in pairs if _content(a) != _content(b)), None)
    except LensError:
        return ""
    return str(found.owner or "") if found is not None else ""


def _content(node: Node) -> tuple[object, ...]:
    return node.opcode, node.operands, [value.type for value in node.results], dict(node.attrs)


def _waits(
    first: RecordedCompile | None,
    second: RecordedCompile | None,
    names: tuple[str, str],
    stage_of: StageOf,
) -> str:
    """Returns the first collectives of two programs that do not fit each other."""
    left, right = _collectives(first, stage_of), _collectives(second, stage_of)
    if left is None or right is None:
        return ""
    for a, b in zip_longest(left, right):
        if a is None or b is None or _fits(a) != _fits(b):
            there = [f"{_named(n)} in {name}" for n, name in zip((a, b), names, strict=True) if n]
            return " and ".join(there)
    return ""


def _collectives(compile: RecordedCompile | None, stage_of: StageOf) -> list[Node] | None:
    """Returns the collectives of a program, none of no program; None if it is not known."""
    if compile is None:
        return []
    stage = stage_of(compile.program, "optimized") if compile.program else None
    if stage is None:
        return None
    try:
        nodes = stage.module.nodes()
        return [node for node in nodes if node.opcode.removesuffix("-start") in COLLECTIVES]
    except LensError:
        return None


def _fits(node: Node) -> tuple[object, ...]:
    return node.opcode, node.type, node.attrs.get("replica_groups", "")


def _named(node: Node) -> str:
    parts = [*map(str, node.type.parts)]  # of a tuple
    kind = f"({listed(parts, _FEW)})" if len(parts) > _FEW else str(node.type)
    return f"{node.id} {kind}" + (f" ({node.owner})" if node.owner else "")
