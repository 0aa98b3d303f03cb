"""What the values of a run held, in sentences and tables."""

import math
from collections.abc import Iterable, Iterator

from jaxlens.ir.run.values import EXPONENTS
from jaxlens.lenses.lines import spot
from jaxlens.lenses.nonfinite.maker import place
from jaxlens.lenses.sentences import bracketed, listed, quoter
from jaxlens.lenses.values.facts import MeasuredValue, Values
from jaxlens.report import Cell, Finding, Report, Table, count

_ROWS = 40
_CLOSE = 3  # doublings from overflow that are worth a sentence
_MOSTLY = 0.5  # share of zeros that is


def report(facts: Values, full: bool = False) -> Report:
    """Returns the sentences, and the tables by line and by equation."""
    tables = (_by_line(facts), _by_equation(facts, full)) if facts.values else ()
    return Report("Values", tuple(_findings(facts)), tables)


def _findings(facts: Values) -> Iterator[Finding]:
    bad = facts.nonfinite
    equations = len({value.path for value in facts.values})
    if not facts.values:
        yield Finding("The program was run, and computes no floats to measure.", "measured")
        return
    ran = f"The program was run once, and {count(equations, 'equation')} measured"
    if bad:
        order = {value.path[0]: n for n, value in reversed([*enumerate(facts.values)])}
        first = min(bad, key=lambda value: (order[value.path[0]], value.held.iterations))
        n = len({value.path for value in bad})
        text = f"{ran}: {n:,} {'has' if n == 1 else 'have'} NaN or infinities, first"
        text += f" {_at(facts, first)}: {_bad(first)}. `%%nan` says where they come from."
        yield Finding(text, "measured", (first.id,), weight=1.0)
    else:
        yield Finding(f"{ran}: no NaN and no infinity.", "measured")
    close = [v for v in facts.values if v.headroom is not None and v.headroom < _CLOSE]
    if close:
        one = min(close, key=lambda value: value.headroom or 0)
        text = f"The largest magnitude of {_at(facts, one)} is {one.held.largest:.3g}"
        yield Finding(
            f"{text}: {one.held.dtype} overflows at {_limit(one)}.", "measured", (one.id,)
        )
    small = [v for v in facts.values if v.held.subnormals]
    if small:
        one = max(small, key=lambda value: value.held.subnormals)
        text = f"{_share(one.held.subnormals, one)} of {_at(facts, one)} are subnormal"
        yield Finding(
            f"{text}: too small for all digits of {one.held.dtype}.", "measured", (one.id,)
        )
    one = max(facts.values, key=lambda value: _zeros(value) * (value.held.elements > 1))
    if _zeros(one) >= _MOSTLY and one.held.elements > 1:
        text = f"{_share(one.held.zeros, one)} of {_at(facts, one)} are zero"
        yield Finding(f"{text}, the largest share of all.", "measured", (one.id,))


def _at(facts: Values, value: MeasuredValue) -> str:
    quote = quoter(facts.subject())(value.span)
    steps = _steps(value)
    when = f" in iteration {' within iteration '.join(reversed(steps))} (from 0)" if steps else ""
    return f"`{value.opcode}` in {place(value.span)}{bracketed(value.span, quote)}{when}"


def _steps(value: MeasuredValue) -> list[str]:
    return [str(n) for n in value.held.iterations]


def _bad(value: MeasuredValue) -> str:
    held = value.held
    parts = [f"{n:,} {name}" for n, name in ((held.nan, "NaN"), (held.inf, "inf")) if n]
    return f"{' and '.join(parts)} of {count(held.elements, 'element')}"


def _limit(value: MeasuredValue) -> str:
    return f"2^{EXPONENTS[value.held.dtype][1] + 1}"


def _zeros(value: MeasuredValue) -> float:
    return value.held.zeros / value.held.elements


def _share(n: int, value: MeasuredValue) -> str:
    return f"{n:,} of {count(value.held.elements, 'element')}"


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


_RIGHT = ("min", "max", "mean", "std", "zeros", "NaN", "inf", "subnormal", "worst at")


def _by_equation(facts: Values, full: bool) -> Table:
    rows = []
    shown = facts.values if full else _chosen(facts.values)
    for value in shown:
        held = value.held
        rows.append(
            (
                Cell(value.id, ids=(value.id,)),
                Cell(value.opcode),
                Cell(str(value.span or "")),
                Cell(value.type),
                *map(_number, (held.least, held.most, held.mean, held.std)),
                _percent(_zeros(value)),
                *map(_count, (held.nan, held.inf, held.subnormals)),
                _exponents(value),
                Cell(", ".join(_steps(value))),
            )
        )
    columns = (
        "equation",
        "primitive",
        "line",
        "type",
        *_RIGHT[:-1],
        "exponents",
        "worst at",
    )
    more = len(facts.values) - len(shown)
    types = {value.held.dtype: EXPONENTS.get(value.held.dtype) for value in facts.values}
    has = [f"{name} has {low[0]} to {low[1]}" for name, low in types.items() if low]
    note = (
        "Over all executions; mean and deviation of finite elements. Worst at: the iteration with "
        "the first NaN or infinity, else with the largest magnitude, from 0. Equations that only "
        "move elements are left out."
    )
    note += f" {count(more, 'more equation')}: --full." if more else ""
    note += f" Exponents: to base 2, of the magnitudes; {listed(has)}." if has else ""
    if facts.unmeasured:
        some = ", ".join(facts.unmeasured[:4])
        note += f" Not executed, or in the test of a while: {some}"
        note += f" and {len(facts.unmeasured) - 4:,} more." if len(facts.unmeasured) > 4 else "."
    right = tuple(columns.index(name) for name in _RIGHT)
    return Table("Values by equation", columns, tuple(rows), note, right=right, stage="jaxpr")


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
        span, held = values[0].span, [value.held for value in values]
        elements = sum(one.elements for one in held)
        rows.append(
            (
                Cell(str(span or "unknown"), ids=tuple(dict.fromkeys(v.id for v in values))),
                Cell(quote(span)),
                Cell(f"{len(values):,}", len(values)),
                _number(_least(one.least for one in held)),
                _number(-_least(-one.most for one in held)),
                _percent(sum(one.zeros for one in held) / elements),
                *(
                    _count(sum(each))
                    for each in zip(*((h.nan, h.inf, h.subnormals) for h in held), strict=True)
                ),
            )
        )
    columns = ("line", "code", "values", "min", "max", "zeros", "NaN", "inf", "subnormal")
    return Table("Values by line", columns, tuple(rows), right=tuple(range(2, 9)), stage="jaxpr")


def _least(numbers: Iterable[float]) -> float:
    return min((x for x in numbers if not math.isnan(x)), default=math.nan)
