"""Formats flops and bytes as sentences and tables, with XLA's own figure next to the count."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Span
from jaxlens.lenses.cost import line_split
from jaxlens.lenses.cost.facts import Cost, Counted
from jaxlens.lenses.program.instructions import idle
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.source_quote import bracketed, quoter
from jaxlens.lenses.subject import Subject
from jaxlens.report import Cell, Finding, Overlay, Report, Table, amount, count

_PER_DEVICE = (
    Finding(
        "The count is for the equations as they are written: for all devices together, in a "
        "shard_map's body for one. So it is not compared with XLA's."
    ),
)


def report(counted: Counted) -> Report:
    """Reports the cost of the program by line, and why XLA's figure differs."""
    cost, subject = counted.cost, counted.subject
    xla: Mapping[str, float] = {}
    missing = "" if counted.compiled else "not compiled"
    if counted.compiled:
        try:
            xla = counted.xla.get()
        except UnavailableError as why:
            missing = str(why)
    devices = subject.program.target.devices
    theirs = _theirs(xla, counted.compiled, missing, devices)
    if cost is None:
        text = "XLA counts a loop's body once, however often it runs."
        once = [Finding(text)] if _given(xla) else []
        open_ = [Finding(f"What each line costs is not counted: {counted.lacking}.", "unknown")]
        return Report("Cost", (*theirs, *once, *open_), ())
    count_, *open_ = _counted(cost)
    findings = (*_answer(cost, subject), count_, *theirs, *open_)
    if _given(xla):
        findings += tuple(_gap(cost, xla["flops"], subject) if devices == 1 else _PER_DEVICE)
    overlay = Overlay("flops", "jaxpr", {id: float(n) for id, n in cost.by_node.items()})
    tables = (_figures(cost, xla), lines(cost, quote=_codes(subject)))
    return Report("Cost", findings, tables, (overlay,))


def _codes(subject: Subject) -> Callable[[str], str]:
    """Returns a function from a line's name to its text."""
    spans, quote = _spans(subject), quoter(subject)
    return lambda line: quote(spans.get(line))


def _spans(subject: Subject) -> dict[str, Span]:
    return {str(node.owner): node.owner for node in subject.jaxpr.module.nodes() if node.owner}


def _answer(cost: Cost, subject: Subject) -> Iterator[Finding]:
    """Yields the finding on the line with the most flops, split up if it has nearly all."""
    line = min(cost.by_line, key=lambda line: (-cost.by_line[line], line), default="")
    if line and cost.by_line[line]:
        share = cost.by_line[line] / cost.flops
        place = f"{line}{bracketed(_spans(subject).get(line), _codes(subject)(line))}"
        text = f"{place} does {_percent(share)} of {amount(cost.flops, 'flop')}"
        if share > line_split.NEARLY_ALL:
            inside = line_split.told(line_split.parts(subject.jaxpr.module, cost.by_node))
            text += f" ({inside})" if inside else ""
        ways = []
        if any(loop.trips is not None and loop.trips > 1 for loop in cost.loops):
            ways.append("loops counted by their trips")
        open_ = sum(1 for loop in cost.loops if loop.trips is None)
        if open_:
            ways.append(f"{count(open_, 'loop')} of unknown length counted once")
        yield Finding(f"{', '.join([text, *ways])}.")


def _counted(cost: Cost) -> Iterator[Finding]:
    """Yields the findings on the count, and on loops, conds and primitives that make it inexact."""
    yield _sum(cost)
    open_ended = [loop for loop in cost.loops if loop.trips is None]
    if open_ended:
        places = listed(list(dict.fromkeys(loop.line for loop in open_ended if loop.line)))
        one = len(open_ended) == 1
        noun = "while loop" if all(loop.kind == "while" for loop in open_ended) else "loop or grid"
        nouns = f"{len(open_ended)} {noun.replace('loop', 'loops').replace('grid', 'grids')}"
        head = f"A {noun}" if one else nouns
        where = f" ({places})" if places else ""
        rest = (
            "runs an unknown number of times; its body counts"
            if one
            else ("run an unknown number of times; their bodies count")
        )
        ids = tuple(loop.id for loop in open_ended)
        yield Finding(f"{head}{where} {rest} once.", "unknown", ids)
    if cost.branches:
        text = f"{count(len(cost.branches), 'cond')}: the branch that costs most was counted."
        yield Finding(text, "counted", cost.branches)
    if cost.unknown:
        names = [f"{name} x {n}" if n > 1 else name for name, n in cost.unknown.items()]
        yield Finding(f"Not counted, for want of a rule: {listed(names, 6)}.", "unknown")


def _sum(cost: Cost) -> Finding:
    """Returns the finding with the count; where it is zero, with the reason."""
    others = f"{amount(cost.transcendentals, '').strip()} transcendentals"
    if cost.flops:
        also = f" and {others}" if cost.transcendentals else ""
        return Finding(f"{amount(cost.flops, 'flop')}{also} counted over the equations.")
    if cost.unknown:
        also = f" besides {others}" if cost.transcendentals else ""
        names = listed(list(cost.unknown), 6)
        return Finding(f"No flop could be counted{also}: there is no rule for {names}.", "unknown")
    if cost.transcendentals:
        return Finding(f"{others} and no other arithmetic counted over the equations.")
    least = "" if cost.bytes is None else f", at least {amount(cost.bytes)} in and out"
    return Finding(f"No arithmetic: the equations only move data{least}.")


def _given(xla: Mapping[str, float]) -> bool:
    return xla.get("flops", -1.0) >= 0


def _theirs(
    xla: Mapping[str, float], compiled: bool, missing: str, devices: int
) -> Iterator[Finding]:
    """Yields the finding with XLA's figure."""
    if _given(xla):
        figure = amount(xla["flops"], "flop")
        each = f" on each of {devices} devices" if devices > 1 else ""
        yield Finding(f"XLA's own figure for the optimised program{each}: {figure}.", "xla")
    elif compiled:
        reason = missing or "its cost analysis is empty for this target"
        yield Finding(f"XLA gives no flops here: {reason}.", "unknown")


def _gap(cost: Cost, theirs: float, subject: Subject) -> Iterator[Finding]:
    """Yields the findings on why XLA's flops differ from the count."""
    counted = [loop for loop in cost.loops if loop.trips is not None and loop.flops]
    if counted and cost.once != cost.flops:
        alike = Counter(f"{loop.trips:,} trips at {loop.line or 'no line'}" for loop in counted)
        words = [f"{n} loops of {trips}" if n > 1 else trips for trips, n in alike.items()]
        yield Finding(
            f"XLA counts a loop's body once ({listed(words)}): "
            f"counted like that the equations have {amount(cost.once, 'flop')}.",
            ids=tuple(loop.id for loop in counted),
        )
    yield from _rest(cost, theirs, subject)


def _rest(cost: Cost, theirs: float, subject: Subject) -> Iterator[Finding]:
    """Yields the findings on the difference that remains with each loop body counted once."""
    ours, loops = cost.once, cost.once != cost.flops
    called = _calls(subject)
    if called:
        yield Finding(f"XLA counts nothing for what a custom call does: {listed(called)}.", "xla")
    if not ours:
        if theirs:
            why = "what has no rule here" if cost.unknown else "loop counters or what passes added"
            text = f"XLA's {amount(theirs, 'flop')} are in none of the counted equations: {why}."
            yield Finding(text, "unknown" if cost.unknown else "counted")
        return
    share = (theirs - ours) / ours
    if abs(share) < 0.005:
        start = "Apart from that the" if loops or called else "The"
        end = ", as far as there are rules" if cost.unknown else ""
        yield Finding(f"{start} two agree{end}.")
    elif share > 0 or not called:  # custom calls may account for all of a lower figure
        start = "With loops counted once the" if loops else "The"
        text = f"{start} optimised program does {_percent(abs(share))}"
        why = (
            "more: values computed again inside fusions, loop counters or what passes added"
            if share > 0
            else "less: lowering or passes removed, merged or simplified the rest"
        )
        if share > 0 and cost.unknown:
            why = "more: what has no rule here, values computed again, or what passes added"
        yield Finding(f"{text} {why}.")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _calls(subject: Subject) -> list[str]:
    try:
        nodes = list(subject.optimized.module.nodes())
    except UnavailableError:
        return []
    calls = (n for n in nodes if n.opcode == "custom-call" and not idle(n))
    named = (n.attrs.get("custom_call_target", n.id) for n in calls)
    return list(dict.fromkeys(name.strip('"') for name in named))


def _figures(cost: Cost, xla: Mapping[str, float]) -> Table:
    """Returns a table of the count and XLA's figures."""

    def theirs(key: str, unit: str) -> Cell:
        value = xla.get(key)
        return Cell(
            "not given" if value is None or value < 0 else amount(value, unit).strip(), value
        )

    rows = (
        (
            Cell("flops"),
            Cell(amount(cost.flops, "flop"), cost.flops),
            Cell(amount(cost.once, "flop"), cost.once),
            theirs("flops", "flop"),
        ),
        (
            Cell("transcendentals"),
            Cell(amount(cost.transcendentals, "").strip(), cost.transcendentals),
            Cell(""),
            theirs("transcendentals", ""),
        ),
        (
            Cell("bytes"),
            Cell(amount(cost.bytes), cost.bytes),
            Cell(""),
            theirs("bytes accessed", "B"),
        ),
    )
    return Table(
        "Cost",
        ("", "counted", "loops once", "XLA, optimised program"),
        rows,
        "Counted bytes are arguments and results once each: a lower bound. XLA's are what the "
        "instructions of the optimised program access, each loop body once.",
        right=(1, 2, 3),
    )


def lines(cost: Cost, most: int = 12, quote: Callable[[str], str] = lambda line: "") -> Table:
    """Returns a table of flops by source line, largest first.

    Args:
        cost: The count.
        most: Number of rows.
        quote: Returns the text of a line.
    """
    ranked = sorted(cost.by_line.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        (
            Cell(line or "(no line)"),
            Cell(quote(line) if line else ""),
            Cell(amount(n, "flop"), n, bar=n / ranked[0][1] if ranked[0][1] else 0.0),
            Cell(f"{n / cost.flops:.1%}" if cost.flops else "", n),
        )
        for line, n in ranked[:most]
    ]
    left = len(ranked) - len(rows)
    note = f"{count(left, 'more line')} below these." if left else ""
    columns = ("line", "code", "flops", "share")
    return Table("Flops by line", columns, tuple(rows), note, right=(2, 3))
