"""Formats flops and bytes as sentences and tables, with XLA's own figure next to the count."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

from jaxlens.captures import Capture
from jaxlens.ir.graph import Span
from jaxlens.ir.hlo.instructions import idle
from jaxlens.program.counted import Cost, Counted
from jaxlens.program.sentences import Quoter, bracketed, listed, passes, quoter
from jaxlens.program.subject import Given
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    amount,
    barred,
    count,
    explains,
    share,
    table,
    tally,
)

_ROWS = 12
_PER_DEVICE = Finding(
    "The count is for all devices together, a shard_map's body once for each; XLA's is for one. So "
    "the two are not compared."
)


def report(counted: Counted) -> Report:
    """Reports the cost of the program by line, and why XLA's figure differs."""
    cost, subject = counted.cost, counted.subject
    xla, of_xla = _xla(counted)
    if cost is None:
        text = "XLA counts a loop's body once, however often it runs."
        once = [Finding(text)] if _has_flops(xla) else []
        missing = Finding(f"What each line costs is not counted: {counted.lacking}.", "unknown")
        return Report("Cost", (of_xla, *once, missing))
    spans = {str(node.owner): node.owner for node in subject.jaxpr.module.nodes() if node.owner}
    quote = quoter(subject)
    sum_, *inexact = _counted(cost)
    findings = [*_answer(cost, spans, quote), sum_, of_xla, *inexact]
    if _has_flops(xla):
        findings += _gap(cost, subject) if counted.devices == 1 else [_PER_DEVICE]
    overlay = Overlay("flops", "jaxpr", {id: float(n) for id, n in cost.by_node.items()})
    return Report(
        "Cost", tuple(findings), (_figures(cost, xla), _lines(cost, spans, quote)), (overlay,)
    )


def _xla(counted: Counted) -> tuple[Mapping[str, float], Finding]:
    """Returns XLA's figures, and the finding with its flops."""
    xla: Mapping[str, float] = counted.xla.or_else({})
    if not _has_flops(xla):
        none = f"its cost analysis {'has none' if xla else 'is empty'} for this target"
        missing = counted.xla.lacking or none
        return xla, Finding(f"XLA gives no flops here: {missing}.", "unknown")
    where = f" on each of {counted.devices} devices" if counted.devices > 1 else ""
    text = f"XLA's own figure for the optimised program{where}: {amount(xla['flops'], 'flop')}."
    return xla, Finding(text, "xla")


def _has_flops(xla: Mapping[str, float]) -> bool:
    return xla.get("flops", -1.0) >= 0


def _answer(cost: Cost, spans: Mapping[str, Span], quote: Quoter) -> Iterator[Finding]:
    """Yields the finding on the line with the most flops."""
    line = min(cost.by_line, key=lambda line: (-cost.by_line[line], line), default="")
    if line and cost.by_line[line]:
        most, span = cost.by_line[line], spans.get(line)
        text = f"{line}{bracketed(span, quote(span))} does {share(most, cost.counted)} of "
        text += amount(cost.counted, "flop")
        text += passes(cost.open)
        if any(loop.trips is not None and loop.trips > 1 for loop in cost.loops):
            text += ", loops counted by their trips"
        yield Finding(f"{text}.", weight=explains(most, cost.counted))


def _counted(cost: Cost) -> Iterator[Finding]:
    """Yields the findings on the count, and on loops, conds and primitives that make it inexact."""
    functions = amount(cost.functions, "").strip()
    also = f" and {functions} transcendentals" if cost.functions else ""
    text = f"{amount(cost.counted, 'flop')}{also} counted over the equations{passes(cost.open)}."
    yield Finding(text)
    unknown = [loop for loop in cost.loops if loop.trips is None]
    if unknown:
        kinds = {"while": "while loop", "pallas_call": "grid"}
        nouns = Counter(kinds.get(loop.kind, loop.kind) for loop in unknown)
        head = listed([count(n, noun) for noun, n in nouns.items()])
        rest = "runs an unknown number of times; its body counts"
        if len(unknown) > 1:
            rest = "run an unknown number of times; their bodies count"
        lines = listed(list(dict.fromkeys(loop.line for loop in unknown if loop.line)))
        where = f" ({lines})" if lines else ""
        ids = tuple(loop.id for loop in unknown)
        weight = explains(sum(loop.flops or 0 for loop in unknown), cost.counted)
        yield Finding(f"{head}{where} {rest} once.", "unknown", ids, weight=weight)
    if cost.branches:
        text = f"{count(len(cost.branches), 'cond')}: the branch that costs most was counted."
        yield Finding(text, "counted", cost.branches)
    if cost.unknown:
        names = listed(tally(cost.unknown), 6)
        yield Finding(f"Not counted, for want of a rule: {names}.", "unknown")


def _gap(cost: Cost, subject: Capture) -> Iterator[Finding]:
    """Yields the findings on why XLA's flops differ from the count."""
    counted = [loop for loop in cost.loops if loop.trips is not None and loop.flops]
    if counted and cost.once != cost.counted:
        alike = Counter(f"{loop.trips:,} trips at {loop.line or 'no line'}" for loop in counted)
        trips = [f"{n} loops of {text}" if n > 1 else text for text, n in alike.items()]
        yield Finding(
            f"XLA counts a loop's body once ({listed(trips)}): "
            f"counted like that the equations have {amount(cost.once, 'flop')}.",
            ids=tuple(loop.id for loop in counted),
        )
    calls = _custom_calls(subject)
    if calls:
        yield Finding(f"XLA counts nothing for what a custom call does: {listed(calls)}.", "xla")


def _custom_calls(subject: Capture) -> list[str]:
    nodes = Given(lambda: list(subject.optimized.module.nodes())).or_else([])
    calls = (n for n in nodes if n.opcode == "custom-call" and not idle(n))
    named = (n.attrs.get("custom_call_target", n.id) for n in calls)
    return list(dict.fromkeys(name.strip('"') for name in named))


def _figures(cost: Cost, xla: Mapping[str, float]) -> Table:
    """Returns a table of the count and XLA's figures."""

    def row(name: str, n: int | None, once: int | None, key: str, unit: str) -> tuple[Cell, ...]:
        value = xla.get(key)
        is_known = value is not None and value >= 0
        figures = (
            Cell(name),
            Cell(amount(n, unit).strip(), n),
            Cell("" if once is None else amount(once, unit), once),
            Cell(amount(value, unit).strip() if is_known else "not given", value),
        )
        (shown,) = barred([figures], (1, 2, 3))  # each figure has its unit, and so its scale
        return shown

    rows = (
        row("flops", cost.counted, cost.once, "flops", "flop"),
        row("transcendentals", cost.functions, None, "transcendentals", ""),
        row("bytes", cost.bytes, None, "bytes accessed", "B"),
    )
    of = f"Counted of a run{passes(cost.open)}. " if cost.open else ""
    return Table(
        "Cost",
        ("", "counted", "loops once", "XLA, optimised program"),
        rows,
        f"{of}Counted bytes are the results, and what the equations read of the arguments: all, or "
        "the parts that they take. XLA's are what the instructions of the optimised program "
        "access, each loop body once.",
        right=(1, 2, 3),
    )


def _lines(cost: Cost, spans: Mapping[str, Span], quote: Quoter) -> Table:
    """Returns a table of flops by source line, largest first."""
    ranked = sorted(cost.by_line.items(), key=lambda item: (-item[1], item[0]))
    whole = cost.counted or 1
    rows = ((line or "(no line)", quote(spans.get(line)), n, n / whole) for line, n in ranked)
    flops = NumberColumn("flops", partial(amount, unit="flop"), "flops")
    columns = ("line", "code", flops, NumberColumn("share", "{:.1%}".format))
    note = f"Of a run{passes(cost.open)}." if cost.open else ""
    return table("Flops by line", columns, rows, note, most=_ROWS)
