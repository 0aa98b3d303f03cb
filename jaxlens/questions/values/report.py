"""What the values of a run held, in sentences and tables."""

import math
from collections.abc import Iterable, Iterator, Sequence

from jaxlens.program import counted as by_module
from jaxlens.program.lines import spot
from jaxlens.program.sentences import listed, located, quoter
from jaxlens.questions.values.facts import MOSTLY, MeasuredInteger, MeasuredValue, Values
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.report import Cell, Finding, NumberColumn, Report, Table, count, table
from jaxlens.views.listings.panes import jaxpr_tab

_ROWS = 40
# These put elements of one operand beside those of another.
_PUT = ("select_n", "scatter", "dynamic_update_slice", "concatenate", "pad")
_CLOSE = 3  # doublings from overflow that are worth a sentence
_FEW = 0.5  # share of an operand's zeros that does not explain a result's


def report(facts: Values, full: bool = False) -> Report:
    """Returns the sentences, and the tables of floats, and of integers and booleans."""
    tables: list[Table] = []
    if facts.values:
        modules = _by_module(facts, full)
        tables = [_by_line(facts), *([modules] if modules else []), _by_equation(facts, full)]
    if facts.integers:
        tables.append(_integers(facts, full))
    return Report("Values", tuple(_findings(facts)), tuple(tables))


def _findings(facts: Values) -> Iterator[Finding]:
    bad = facts.nonfinite
    equations = len({value.path for value in facts.values})
    if not facts.values:
        others = count(len({value.path for value in facts.integers}), "equation")
        measured = f": {others} with integers or booleans measured"
        rest = measured if facts.integers else " to measure"
        yield Finding(f"The program was run, and computes no floats{rest}.", "measured")
        return
    ran = f"The program was run once, and {count(equations, 'equation')} measured"
    if bad:
        order = {value.path[0]: n for n, value in reversed([*enumerate(facts.values)])}
        first = min(bad, key=lambda value: (order[value.path[0]], value.statistics.iterations))
        n = len({value.path for value in bad})
        has = f"{'has' if n == 1 else 'have'} NaN or infinities, first {_at(facts, first)}"
        text = f"{ran}: {n:,} {has}: {_bad(first)}. `%%nan` says where they come from."
        if facts.finite:
            inside = f"the results are finite, and on the way {count(n, 'equation')} {has}"
            text = f"{ran}: {inside}: {_bad(first)}."
        yield Finding(text, "measured", (first.id,), weight=1.0)
    else:
        yield Finding(f"{ran}: no NaN and no infinity.", "measured")
    close = [v for v in facts.values if v.headroom is not None and v.headroom < _CLOSE]
    if close:
        one = min(close, key=lambda value: (value.is_limit, value.headroom))
        text = f"The largest magnitude of {_at(facts, one)} is {one.statistics.largest:.3g}"
        dtype = one.statistics.dtype
        text += f", {dtype}'s largest number, as in a mask" if one.is_limit else ""
        yield Finding(f"{text}: {dtype} overflows at {_limit(one)}.", "measured", (one.id,))
    small = [v for v in facts.values if v.statistics.subnormals]
    if small:
        one = max(small, key=lambda value: value.statistics.subnormals)
        text = f"{_share(one.statistics.subnormals, one)} of {_at(facts, one)} are subnormal"
        yield Finding(
            f"{text}: too small for all digits of {one.statistics.dtype}.", "measured", (one.id,)
        )
    zero = [value for value in facts.values if _begins_zero(value)]
    if zero:
        one = max(zero, key=lambda value: value.zeros)
        most = f"at most {_percent(one.operand_zeros).text}" if one.operand_zeros else "none"
        text = f"{_share(one.statistics.zeros, one)} of {_at(facts, one)} are zero, though {most}"
        text += " of its operands' elements are"
        text += f"; {count(len(zero) - 1, 'more value')} likewise" if len(zero) > 1 else ""
        yield Finding(f"{text}.", "measured", (one.id,))


def _at(facts: Values, value: MeasuredValue) -> str:
    steps = _steps(value)
    when = f" in iteration {' within iteration '.join(reversed(steps))} (from 0)" if steps else ""
    return f"`{value.opcode}` in {located(value.span, quoter(facts.subject()))}{when}"


def _steps(value: MeasuredValue) -> list[str]:
    return [str(n) for n in value.statistics.iterations]


def _bad(value: MeasuredValue) -> str:
    own = value.statistics
    parts = [f"{n:,} {name}" for n, name in ((own.nan, "NaN"), (own.inf, "inf")) if n]
    return f"{' and '.join(parts)} of {count(own.elements, 'element')}"


def _limit(value: MeasuredValue) -> str:
    return f"2^{value.statistics.exponents[1] + 1}"


def _begins_zero(value: MeasuredValue) -> bool:
    """Whether a value is nearly all zero although no operand explains it.

    What puts elements into a result is left out: a predicate, indices or a padding choose zeros
    that are written in the program, as in the derivative of `abs` or of an indexed array.
    """
    before = value.operand_zeros
    if value.opcode.startswith(_PUT) or value.statistics.elements == 1:
        return False
    return value.zeros >= MOSTLY and before is not None and before < _FEW


def _share(n: int, value: MeasuredValue) -> str:
    return f"{n:,} of {count(value.statistics.elements, 'element')}"


def _number(x: float) -> Cell:
    return Cell("" if math.isnan(x) else f"{x:.4g}", x if math.isfinite(x) else None)


def _count(n: int) -> Cell:
    return Cell(f"{n:,}" if n else "", n)


def _percent(part: float) -> Cell:
    text = "<1%" if 0 < part < 0.005 else ">99%" if 0.995 <= part < 1 else f"{part:.0%}"
    return Cell(text if part else "", part)


def _exponents(value: MeasuredValue) -> Cell:
    own = value.exponents
    return Cell(f"{own[0]} to {own[1]}" if own else "")


def _by_equation(facts: Values, full: bool) -> Table:
    def row(value: MeasuredValue) -> tuple[object, ...]:
        own = value.statistics
        return (
            Cell(value.id, ids=(value.id,)),
            value.opcode,
            str(value.span or ""),
            value.type,
            *map(_number, (own.least, own.most)),
            _percent(value.zeros),
            *map(_count, (own.nan, own.inf, own.subnormals)),
            _exponents(value),
            ", ".join(_steps(value)),
        )

    figures = [*map(NumberColumn, "min max zeros NaN inf subnormal".split())]
    columns: list[str | NumberColumn] = [
        "equation",
        "primitive",
        "line",
        "type",
        *figures,
        "exponents",
    ]
    shown = facts.values if full else _chosen(facts.values)
    more = len(facts.values) - len(shown)
    types = {value.statistics.dtype: value.statistics.exponents for value in facts.values}
    has = [f"{name} has {low} to {high}" for name, (low, high) in types.items()]
    note = (
        "Over all executions. Worst at: the iteration with the first NaN or infinity, else with "
        "the largest magnitude, from 0. Equations that only move elements are left out."
    )
    note += f" {count(more, 'more equation')}: --full." if more else ""
    note += f" Exponents: to base 2, of the magnitudes; {listed(has)}."
    if facts.unmeasured:
        note += f" Not executed: {listed(facts.unmeasured)}."
    columns.append(NumberColumn("worst at"))
    return table("Values by equation", columns, map(row, shown), note, stage="jaxpr")


def _integers(facts: Values, full: bool) -> Table:
    """Returns the table of integers and booleans, in program order."""

    def row(value: MeasuredInteger) -> tuple[object, ...]:
        own, none = value.statistics, Cell("")
        figures: tuple[Cell, ...]
        if own.dtype == "bool":
            true = 1 - value.zeros
            figures = (none, none, none, _percent(true) if true else Cell("0%", 0.0))
        else:
            ends = (Cell(f"{n:,}", n) for n in (own.least, own.most))
            figures = (*ends, _percent(value.zeros), none)
        texts = (value.opcode, str(value.span or ""), value.type)
        return (Cell(value.id, ids=(value.id,)), *texts, *figures)

    figures = map(NumberColumn, "min max zeros True".split())
    columns: list[str | NumberColumn] = ["equation", "primitive", "line", "type", *figures]
    note = "Over all executions. Equations that only move elements are left out."
    most, rest = None if full else _ROWS, ": --full"
    title = "Integers and booleans by equation"
    rows = map(row, facts.integers)
    return table(title, columns, rows, note, most=most, rest=rest, stage="jaxpr")


def _chosen(values: tuple[MeasuredValue, ...]) -> list[MeasuredValue]:
    """Returns the first of many: those that are not finite before others."""
    first = sorted(range(len(values)), key=lambda n: not values[n].nonfinite)[:_ROWS]
    return [values[n] for n in sorted(first)]


def _by_line(facts: Values) -> Table:
    quote = quoter(facts.subject())
    lines: dict[object, list[MeasuredValue]] = {}
    for value in facts.values:
        lines.setdefault(spot(value.span) if value.span else None, []).append(value)
    rows = []
    for values in lines.values():
        span = values[0].span
        line = Cell(str(span or "unknown"), ids=tuple(dict.fromkeys(v.id for v in values)))
        rows.append((line, quote(span), *_joined(values)))
    return table("Values by line", ("line", "code", *_JOINED), rows, stage="jaxpr")


def _by_module(facts: Values, full: bool) -> Table | None:
    """Returns the values of each module and pass, in the order of execution; None without any."""
    groups = by_module.grouped(facts.values)
    if not groups:
        return None
    rows = [(*by_module.cells(values), *_joined(values)) for values in groups]
    most, rest = None if full else _ROWS, " with --full"
    title = "Values by module"
    return table(title, ("module", "pass", *_JOINED), rows, most=most, rest=rest, stage="jaxpr")


_JOINED = tuple(map(NumberColumn, "values min max zeros NaN inf subnormal".split()))


def _joined(values: Sequence[MeasuredValue]) -> list[object]:
    """Returns the cells of several values together."""
    every = [value.statistics for value in values]
    counts = zip(*((one.nan, one.inf, one.subnormals) for one in every), strict=True)
    return [
        len(values),
        _number(_least(one.least for one in every)),
        _number(-_least(-one.most for one in every)),
        _percent(sum(one.zeros for one in every) / sum(one.elements for one in every)),
        *(_count(sum(each)) for each in counts),
    ]


def _least(numbers: Iterable[float]) -> float:
    return min((x for x in numbers if not math.isnan(x)), default=math.nan)


_TABS = {  # by the title of a table
    "Values by line": ("By line", "lines", "What the floats of each line held."),
    "Values by module": ("By module", "modules", "What the floats of each module held."),
    "Values by equation": ("By equation", "equations", "What the floats of each equation held."),
    "Integers and booleans by equation": (
        "Integers",
        "integers",
        "What the integers and booleans of each equation held.",
    ),
}


def blocks(facts: Values, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, and the jaxpr."""
    answer = report(facts, full)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tabs = tuple(
        Tab(title, (TableBlock(table),), True, help, key)
        for table in answer.tables
        for title, key, help in [_TABS[table.title]]
    )
    return [Findings(answer.findings), Tabs((*tabs, listing))]
