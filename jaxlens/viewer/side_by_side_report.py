"""Programs side by side: the figures of one function on several targets, a column each.

A target that is not here, or for which the function does not compile, is a column that says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError, first_line
from jaxlens.ir.hlo.memory_spaces import space_name
from jaxlens.ir.needs import Needs
from jaxlens.program.counted import Cost
from jaxlens.program.figures import FIGURES, Figures
from jaxlens.program.sentences import listed
from jaxlens.program.subject import devices
from jaxlens.report import Cell, Finding, Report, Table, amount, barred, count, tally

_ROWS = (
    "kernels library_calls fusions instructions executions flops xla_flops bytes moved xla_bytes "
    "temporaries peak on_chip reserved"
).split()


@dataclass(frozen=True, slots=True)
class Column:
    """One program of several.

    Attributes:
        name: Its target, and what else tells it from the others.
        figures: Figures of `FIGURES` by name; None for what this target does not give, {} where
            there is no program.
        missing: Why there is no program; "" if there is one.
        absent: What is to be known of a program for a device that is not here; "" for others.
        memory: The name of the device's main memory.
        devices: The number of devices that run it, each a part.
        uncounted: What the counts lack: primitives without a rule, and the trips of loops.
    """

    name: str
    figures: Mapping[str, int | None] = field(default_factory=dict)
    missing: str = ""
    absent: str = ""
    memory: str = "main memory"
    devices: int = 1
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Programs side by side.

    Attributes:
        columns: One for each program, in the order given.
    """

    columns: tuple[Column, ...]


def column(name: str, program: Capture | LensError) -> Column:
    """Returns the figures of a program, which is compiled now.

    Args:
        name: Its heading.
        program: The program, or why there is none.
    """
    if isinstance(program, LensError):
        return Column(name, missing=str(program))
    if why := uncompiled(program):
        return Column(name, missing=str(why))
    figures = Figures(program)
    target = program.program.target
    absent = "which is not here" if target.absent else ""
    if absent and target.platform == "gpu":
        absent += ": XLA's autotuning is off, a real one's program may differ"
    rows = {row: figures.get(row) for row in _ROWS}
    memory = space_name(0, target.platform)
    lacking = _uncounted(figures.counted) if rows["flops"] is not None else ()
    lacking += tuple(figures.missing[row] for row in ("moved",) if row in figures.missing)
    return Column(name, rows, "", absent, memory, devices(program), lacking)


def _uncounted(cost: Cost) -> tuple[str, ...]:
    return (f"no rule for {listed(tally(cost.unknown), 6)}",) if cost.unknown else ()


def uncompiled(program: Capture) -> LensError | None:
    """Compiles a program; returns why JAX or XLA does not compile it for its target, else None."""
    try:
        _ = program.gather(Needs(compiled=True)).optimized
    except LensError as why:
        return why
    except Exception as error:  # JAX's or XLA's
        reason = f"{type(error).__name__}: {first_line(error)}".rstrip(" ,.")
        return UnavailableError(f"it does not compile for {program.program.target.kind}: {reason}")
    return None


def report(programs: SideBySide) -> Report:
    """Reports each program in a sentence, and all of them in tables with a column each."""
    columns = programs.columns
    findings = [
        Finding(f"{one.name}: {one.missing}.".replace("..", "."), "unknown")
        if one.missing
        else Finding(f"{one.name}: {_sentence(one)}.", "counted")
        for one in columns
    ]
    names = ("", *(one.name for one in columns))
    right = tuple(range(1, len(names)))
    rows: list[tuple[Cell, ...]] = []
    for name in _ROWS:
        if any(one.figures.get(name) is not None for one in columns):
            metric = FIGURES[name]
            title = metric.title
            if metric.unit and any(one.devices > 1 for one in columns):
                title += ", one device" if metric.compiled else ", all devices"
            row = (Cell(title), *(_cell(one, name) for one in columns))
            rows += barred([row], right)  # each figure has a unit of its own
    note = (
        "Flops and bytes of arguments are counted over the jaxpr. Memory is XLA's buffer "
        "assignment, bytes accessed its cost analysis. Executions and what kernels move are "
        "counted, by the trips of loops."
    )
    lacking = dict.fromkeys(text for one in columns for text in one.uncounted)
    note += f" Not all is counted: {listed(list(lacking))}." if lacking else ""
    tables = [Table("Side by side", names, tuple(rows), note, right=right)] if rows else []
    return Report("Side by side", tuple(findings), tuple(tables))


def _sentence(one: Column) -> str:
    kernels, calls, peak = (one.figures.get(name) for name in ("kernels", "library_calls", "peak"))
    parts = [count(kernels, "kernel")] if kernels is not None else []
    parts += [count(calls, "library call")] if calls else []
    memory = f"{one.memory} of each device" if one.devices > 1 else one.memory
    parts += [f"{amount(peak)} of {memory} at the peak"] if peak is not None else []
    text = ", ".join(parts) or "compiled"
    return f"{text}; for a device {one.absent}" if one.absent else text


def _cell(one: Column, name: str) -> Cell:
    value, unit = one.figures.get(name), FIGURES[name].unit
    if value is None:
        unsure = one.uncounted and name in ("executions", "flops", "moved")
        return Cell("-" if one.missing else "unknown" if unsure else "not given")
    if name == "flops" and one.uncounted:
        return Cell(f"at least {amount(value, unit)}", value) if value else Cell("unknown")
    return Cell(amount(value, unit) if unit else f"{value:,}", value)
