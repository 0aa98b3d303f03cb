"""The table of a program's kernels, those that cost most first.

Cost is the measured time where a profiler watched a run, else the bytes that all executions move.
"""

from collections.abc import Mapping, Sequence

from jaxlens.program.kernel_cost import KernelCost, memories_of
from jaxlens.program.kernels import Work, what
from jaxlens.program.sentences import listed, passes
from jaxlens.report import Cell, Table, amount, barred, duration


def by_cost(
    works: Sequence[Work],
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
) -> list[Work]:
    """Returns the kernels, those that cost most first.

    Args:
        works: The kernels.
        costs: Their flops and bytes, by instruction.
        seconds: Measured seconds in a run, by instruction; None where nothing was measured.
    """

    def cost(work: Work) -> tuple[float, int]:
        id = work.kernel.instruction
        moved = sum(costs[id].memories.values()) if id in costs else 0
        return (seconds or {}).get(id, 0.0), moved or work.moved or 0

    return sorted(works, key=cost, reverse=True)


def table(
    works: Sequence[Work],
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
) -> Table:
    """Returns a table with a row per kernel, in the order given; its arguments are `by_cost`'s."""
    known = [costs.get(work.kernel.instruction) for work in works]
    moved = [_bytes(work, costs) for work in works]
    times = [(seconds or {}).get(work.kernel.instruction) for work in works]
    memories = memories_of(cost for cost in known if cost)
    main, *others = memories if len(memories) > 1 else ["bytes"]
    placed = any(work.place for work in works)
    launched = any(work.kernel.launch for work in works)
    rows = []
    for work, cost, n, took in zip(works, known, moved, times, strict=True):
        time = "" if took is None else duration(took)
        flops = Cell("-")
        if cost is not None and cost.uncounted:
            flops = Cell("unknown")
        elif cost is not None:
            flops = Cell(amount(cost.flops, "flop"), cost.flops)
        rows.append(
            (
                Cell(work.kernel.name, ids=(work.kernel.name,)),
                *([Cell(time, took)] if seconds else []),
                Cell("-" if n is None else amount(n), n),
                *(_elsewhere(cost, name) for name in others),
                *([flops] if costs else []),
                Cell(listed(work.lines)),
                Cell(what(work)),
                Cell(work.kernel.kind),
                *([Cell(work.place)] if placed else []),
                *([Cell(work.kernel.launch)] if launched else []),
            )
        )
    numbers = (*(["in a run"] if seconds else []), main, *others, *(["flops"] if costs else []))
    where = (*(["where"] if placed else []), *(["launch"] if launched else []))
    words = ("from lines", "what it fused", "kind", *where)
    columns = ("kernel", *numbers, *words)
    right = tuple(range(1, len(numbers) + 1))
    first, last = 1 + bool(seconds), 1 + bool(seconds) + len(others)  # the memories' columns
    scales = *((n,) for n in right if not first <= n <= last), range(first, last + 1)
    of = passes(loop for cost in known if cost for loop in cost.open)
    note = f"Bytes: what all executions in a run{of} read of each operand and write, once."
    if seconds:
        note += " In a run: measured under the profiler, which slows it; a loop with its body."
    return Table("Kernels", columns, barred(rows, *scales), note, bool(seconds), right, "kernels")


def _elsewhere(cost: KernelCost | None, name: str) -> Cell:
    """Returns the cell of what a kernel moves in a memory that is not the main one."""
    n = cost.memories.get(name, 0) if cost else None
    return Cell("-" if n is None else amount(n), n)


def _bytes(work: Work, costs: Mapping[str, KernelCost]) -> int | None:
    """Returns the bytes of all executions of a kernel; of one where their number is unknown."""
    cost = costs.get(work.kernel.instruction)
    return work.moved if cost is None else cost.bytes
