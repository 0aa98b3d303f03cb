"""The table of a program's kernels, those that cost most first.

Cost is the measured time where a profiler watched a run, the least time where the limits of the
device are known, else the bytes that all executions move.
Kernels that do the same to the leaves of one pytree, as those of an optimiser do, are one row.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from jaxlens import report as tables
from jaxlens.ir.facts import root_name
from jaxlens.program.kernel_cost import KernelCost, memories_of
from jaxlens.program.kernels import Work, what
from jaxlens.program.sentences import listed, passes
from jaxlens.report import Cell, NumberColumn, Table, amount, duration, total

_NUMBER = re.compile(r"\.\d+$")
_STEP = re.compile(r"\[[^\]\[]*\]|\.?[^.\[]+")  # of a pytree's path: "params", "['w']", ".mu"


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A row of the table: a kernel, or several that do the same to the leaves of a pytree.

    Attributes:
        works: The kernels, those that cost most first.
        leaves: What each reads one of: "params[*]"; "" of a kernel on its own.
    """

    works: tuple[Work, ...]
    leaves: str = ""

    @property
    def name(self) -> str:
        """`multiply_add_fusion x 6: params[*]`."""
        names = [work.kernel.name for work in self.works]
        if not self.leaves:
            return names[0]
        plain = {_NUMBER.sub("", name) for name in names}
        name = plain.pop() if len(plain) == 1 else names[0]
        return f"{name} x {len(names)}: {self.leaves}"


def by_cost(
    works: Iterable[Work],
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
) -> list[Work]:
    """Returns the kernels, those that cost most first.

    Args:
        works: The kernels.
        costs: Their flops and bytes, by instruction.
        seconds: Seconds of a run, by instruction, measured or the least; None where unknown.
    """
    return sorted(works, key=_cost(costs, seconds), reverse=True)


def alike(
    works: Iterable[Work],
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
    names: Mapping[str, str] | None = None,
) -> list[KernelRow]:
    """Returns the rows of the table, those that cost most together first.

    Args:
        works: The kernels.
        costs: As for `by_cost`.
        seconds: As for `by_cost`.
        names: What the user's code calls the program's parameters, by instruction.
    """
    found: dict[tuple[object, ...], list[Work]] = {}
    times = Counter[object]()
    for n, work in enumerate(by_cost(works, costs, seconds)):
        key: tuple[object, ...] = (n,)
        if leaves := _leaves(work, names or {}):
            role = *_role(work), *map(root_name, leaves)
            times[role, leaves] += 1
            key = times[role, leaves], *role  # what does it to a leaf again is in another row
        found.setdefault(key, []).append(work)
    cost = _cost(costs, seconds)

    def together(row: KernelRow) -> tuple[float, ...]:
        return tuple(map(sum, zip(*map(cost, row.works), strict=True)))

    rows = [KernelRow(tuple(group), _pattern(group, names or {})) for group in found.values()]
    return sorted(rows, key=together, reverse=True)


def _cost(
    costs: Mapping[str, KernelCost], seconds: Mapping[str, float] | None
) -> Callable[[Work], tuple[float, int]]:
    def cost(work: Work) -> tuple[float, int]:
        id = work.kernel.instruction
        moved = sum(costs[id].memories.values()) if id in costs else 0
        return (seconds or {}).get(id, 0.0), moved or work.moved or 0

    return cost


def _leaves(work: Work, names: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the leaves of pytrees among the inputs that a kernel reads."""
    read = (names.get(id, "") for id in work.node.operands) if work.node else ()
    return tuple(name for name in read if name != root_name(name))


def _role(work: Work) -> tuple[object, ...]:
    """Returns what kernels that do the same have in common."""
    backward = work.node is not None and "transpose(" in work.node.scope
    return work.kernel.kind, *work.lines, what(work), work.place, backward


def _pattern(works: Sequence[Work], names: Mapping[str, str]) -> str:
    """Returns `m[*] and params[*]`, for the leaves that kernels alike read."""
    if len(works) == 1:
        return ""
    paths = []
    for leaves in zip(*(_leaves(work, names) for work in works), strict=True):
        steps = zip(*map(_STEP.findall, leaves), strict=False)
        start = "".join(step for step, *_ in takewhile(lambda step: len(set(step)) == 1, steps))
        paths.append(f"{start}{'.*' if leaves[0][len(start) :].startswith('.') else '[*]'}")
    return listed(list(dict.fromkeys(paths)))


def table(
    rows: Sequence[KernelRow],
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
    limits: str = "",
) -> Table:
    """Returns the table of rows in the order given.

    Args:
        rows: The rows.
        costs: As for `alike`.
        seconds: As for `alike`.
        limits: The device by whose published limits these are the least; "" if they are measured.
    """
    works = [work for row in rows for work in row.works]
    known = [cost for work in works if (cost := costs.get(work.kernel.instruction))]
    memories = [*memories_of(known)]
    main, *others = memories if len(memories) > 1 else ["bytes"]
    placed = any(work.place for work in works)
    launched = any(work.kernel.launch for work in works)
    flop = partial(amount, unit="flop")
    columns: list[str | NumberColumn] = ["from lines", "kernel"]
    if seconds:
        columns.append(NumberColumn("at best" if limits else "in a run", duration, "time", ""))
    columns += [NumberColumn(name, amount, "bytes", "-") for name in (main, *others)]
    columns += [NumberColumn("flops", flop, "flops", "-")] if costs else []
    columns += ["what it fused", "kind", *["where"] * placed, *["launch"] * launched]

    def values(row: KernelRow) -> Iterator[object]:
        first, ids = row.works[0], [work.kernel.instruction for work in row.works]
        own = [costs[id] for id in ids if id in costs]
        yield listed(first.lines)
        yield Cell(row.name, ids=tuple(work.kernel.name for work in row.works))
        if seconds:
            times = [seconds[id] for id in ids if id in seconds]
            yield sum(times) if times else None
        yield total(_bytes(work, costs) for work in row.works)
        for name in others:
            yield sum(cost.memories.get(name, 0) for cost in own) if own else None
        if costs:
            unknown = any(cost.uncounted for cost in own)
            yield "unknown" if unknown else sum(cost.flops for cost in own) if own else None
        yield from (what(first), first.kernel.kind, *[first.place] * placed)
        if launched:
            yield listed(list(dict.fromkeys(work.kernel.launch for work in row.works)))

    of = passes(loop for cost in known for loop in cost.open)
    note = f"Bytes: what all executions in a run{of} read of each operand and write, once."
    if len(works) > len(rows):
        note += " x 2: two kernels that do the same, each to a leaf of its own."
    if seconds and limits:
        note += f" At best: an estimate, by the published limits of {limits}."
    elif seconds:
        note += " In a run: measured under the profiler, which slows it; a loop with its body."
    measured, written = bool(seconds) and not limits, map(tuple, map(values, rows))
    return tables.table("Kernels", columns, written, note, volatile=measured, stage="kernels")


def _bytes(work: Work, costs: Mapping[str, KernelCost]) -> int | None:
    """Returns the bytes of all executions of a kernel; of one where their number is unknown."""
    cost = costs.get(work.kernel.instruction)
    return work.moved if cost is None else cost.bytes
