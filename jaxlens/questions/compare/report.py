"""Reports what changed between two captures: after an edit, on another version, device or flag.

The first sentence has the biggest consequence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import log2

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import PLUMBING
from jaxlens.links.match.across_edits import Pairs
from jaxlens.program.figures import FIGURES, Metric
from jaxlens.program.sentences import listed
from jaxlens.questions.compare.causes import Cause
from jaxlens.questions.compare.facts import NAMES, Comparison, Names
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    Trust,
    amount,
    barred,
    count,
    table,
    tally,
)

_LINES = 3  # lines named in a sentence
_FEW = 5  # kinds of instructions named in a sentence
_SENTENCE = (
    "fusions",
    "library_calls",
    "kernels",
    "executions",
    "flops",
    "temporaries",
    "peak",
    "on_chip",
    "moved",
    "bytes",
)
_BY_XLA = ("temporaries", "peak", "on_chip")
_WORTH = 0.01  # log2 of the ratio from which a figure is in the sentence (0.7%)


def report(comparison: Comparison, names: Names = NAMES) -> Report:
    """Reports a comparison in sentences and tables.

    Args:
        comparison: The alignment of two captures.
        names: Names of the two in headings.
    """
    new = dict.fromkeys(comparison.new, 1.0) | dict.fromkeys(comparison.changed.values(), 0.5)
    overlay = Overlay("new (1) or changed (0.5)", "jaxpr", new)
    full = tuple(table for table in tables(comparison, names) if table.rows)
    return Report("What changed", tuple(_findings(comparison, names)), full, (overlay,))


def _findings(comparison: Comparison, names: Names) -> Iterator[Finding]:
    """Yields the biggest consequence, changed instructions, and what could not be compared."""
    edited = not comparison.equations.equal
    unchanged = "nothing of what runs changed" if edited else "the same program runs"
    alike = comparison.instructions is not None and comparison.instructions.equal
    ranked = _ranked(comparison)
    parts = [_consequence(FIGURES[name], *comparison.figures[name]) for name in ranked]
    if comparison.recoded:
        parts.append(f"other LLVM IR in {count(len(comparison.recoded), 'kernel')}")
    consequence = ", ".join(parts) or (unchanged if alike else "")
    equations = _equations(comparison.equations) or "the same equations"
    trust: Trust = "xla" if any(name in _BY_XLA for name in ranked) else "counted"
    ids = (*comparison.new, *comparison.changed.values())
    text = "; ".join(filter(None, (consequence, equations)))
    yield Finding(f"{_subject(comparison.causes, edited)}: {text}.", trust, ids)
    yield from _instructions(comparison)
    reasons: dict[tuple[str, str], list[str]] = {}
    for (side, name), why in comparison.missing.items():
        both = (1 - side, name) in comparison.missing
        if side == 0 or not both:
            whose = "both" if both else names[side]
            reasons.setdefault((whose, why), []).append(FIGURES[name].title)
    for (whose, why), titles in reasons.items():
        text = f"Not compared: {listed(titles, 6)} ({whose}: {why})."
        yield Finding(text, "unknown")


def _subject(causes: Sequence[Cause], edited: bool) -> str:
    """Returns the beginning of the sentence on the change."""
    if causes:
        head, *rest = (cause.text for cause in causes)
        return " and ".join([head, *(text[:1].lower() + text[1:] for text in rest)])
    return "The other program" if edited else "Another compile"


def _ranked(comparison: Comparison) -> list[str]:
    """Returns three or four figures that changed, the most changed first."""
    growth: dict[str, float] = {}
    for name in _SENTENCE:
        was, now = comparison.figures.get(name, (None, None))
        if was is not None and now is not None and min(was, now) >= 0:
            growth[name] = log2((now + 1) / (was + 1))
    growth = {name: grown for name, grown in growth.items() if abs(grown) >= _WORTH}
    if "fusions" in growth:
        growth.pop("kernels", None)  # each fusion is a kernel, so it would be the same fact
    if growth.get("temporaries", 0) * growth.get("peak", 0) > 0:
        del growth["peak"]
    ranked = sorted(growth, key=lambda name: -abs(growth[name]))[:3]
    # Moving data to another memory space saves nothing, so both figures are named.
    if "on_chip" in growth and "on_chip" not in ranked and {"temporaries", "peak"} & set(ranked):
        ranked.append("on_chip")
    return ranked


def _consequence(figure: Metric, before: int | None, after: int | None) -> str:
    """Returns `2 fusions instead of 3`."""
    was, now = before or 0, after or 0
    if not figure.unit:
        return f"{count(now, figure.noun)} instead of {was:,}"
    if figure.unit == "flop":
        return f"{amount(now, 'flop')} instead of {amount(was, 'flop')}"
    size, less = amount(abs(now - was), figure.unit), "less" if now < was else "more"
    return f"{size} {less} {figure.noun} ({amount(now)}, was {amount(was)})"


def _equations(pairs: Pairs) -> str:
    """Returns `4 equations are new (cell 2:3), 1 is gone`; "" for no change."""
    parts: list[str] = []
    for ids, state, module in (
        (pairs.new, "new", pairs.after),
        (pairs.gone, "gone", pairs.before),
        (pairs.changed.values(), "of another type or form", pairs.after),
    ):
        if ids:
            noun = f"{len(ids):,}" if parts else count(len(ids), "equation")
            lines = Counter(str(node.owner) for node in _nodes(ids, module) if node.owner)
            places = listed([line for line, _ in lines.most_common()], _LINES)
            text = f"{noun} {'is' if len(ids) == 1 else 'are'} {state}"
            parts.append(f"{text} ({places})" if places else text)
    return ", ".join(parts)


def _nodes(ids: Iterable[str], module: Module) -> list[Node]:
    id_set = set(ids)
    return [node for node in module.nodes() if node.id in id_set]


def _instructions(comparison: Comparison) -> Iterator[Finding]:
    """Yields the finding on new, gone and changed instructions of the optimised program."""
    pairs = comparison.instructions
    if pairs is None or pairs.equal:
        return
    sides = {"new": _nodes(pairs.new, pairs.after), "gone": _nodes(pairs.gone, pairs.before)}
    sides = {k: [n for n in nodes if n.opcode not in PLUMBING] for k, nodes in sides.items()}
    parts = [f"{len(n):,} {state} ({_opcodes(n)})" for state, n in sides.items() if n]
    if pairs.changed:
        parts.append(f"{len(pairs.changed):,} of another type or holding something else")
    if parts:
        ids = tuple(node.id for node in sides["new"])
        yield Finding(f"Instructions of the optimised program: {', '.join(parts)}.", ids=ids)


def _opcodes(nodes: Sequence[Node]) -> str:
    """Returns `fusion x 2, add, 3 more kinds`, the most frequent first."""
    ranked = Counter(node.opcode for node in nodes).most_common()
    more = [count(len(ranked) - _FEW, "more kind")] if len(ranked) > _FEW else []
    return ", ".join([*tally(dict(ranked[:_FEW])), *more])


_ROWS = 60


def tables(comparison: Comparison, names: Names) -> Iterator[Table]:
    """Yields the tables of a comparison; some may have no rows."""
    yield _figures(comparison, names)
    yield _by_line(comparison, names)


def _figures(comparison: Comparison, names: Names) -> Table:
    """Returns a table of both sides of each figure, each with a scale of its own."""
    rows: list[tuple[Cell, ...]] = []
    for name, (was, now) in comparison.figures.items():
        if was is None and now is None:
            continue
        figure = FIGURES[name]
        write = partial(amount, unit=figure.unit) if figure.unit else None
        side = NumberColumn(name, write, none="not given")
        cells = (Cell(figure.title), side.cell(was), side.cell(now), _difference(was, now, figure))
        rows += [cells] if was == now else barred([cells], (1, 2))
    note = (
        "Equations, flops and bytes of arguments are counted over the jaxpr, flops by the trips of "
        "loops."
    )
    if "temporaries" in comparison.figures:
        note += " Memory is XLA's buffer assignment, bytes accessed its cost analysis; executions "
        note += "and what kernels move are counted, by the trips of loops."
        if any(comparison.figures.get("library_calls", ())):
            note += " XLA counts no flops for a library call that is a custom call."
    return Table("Figures", ("", *names, "change"), tuple(rows), note, right=(1, 2, 3))


def _difference(was: int | None, now: int | None, figure: Metric) -> Cell:
    if was is None or now is None:
        return Cell("")
    if was == now:
        return Cell("same", 0)
    sign = "+" if now > was else "-"
    size = amount(abs(now - was), figure.unit) if figure.unit else f"{abs(now - was):,}"
    change = (now - was) / was if was else 0.0
    ratio = f" ({change:+.0%})" if abs(change) > 0.005 else ""
    return Cell(f"{sign}{size}{ratio}", now - was)


def _by_line(comparison: Comparison, names: Names) -> Table:
    """Returns a table of the lines whose equations changed."""
    rows = (
        (
            line.before or "-",
            Cell(line.after or "-", ids=(*line.new, *line.changed)),
            len(line.new),
            len(line.gone),
            len(line.changed),
            line.what,
        )
        for line in comparison.lines
    )
    new, gone, changed = (NumberColumn(n, bar="equations") for n in ("new", "gone", "changed"))
    columns = (f"line {names[0]}", f"line {names[1]}", new, gone, changed, "what")
    return table("Equations by line", columns, rows, most=_ROWS, stage="jaxpr")
