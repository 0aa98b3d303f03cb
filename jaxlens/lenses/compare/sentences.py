"""Sentences on what changed between two captures: the biggest consequence, then the others."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log2

from jaxlens.ir.graph import Module, Node
from jaxlens.lenses.compare.causes import subject
from jaxlens.lenses.compare.facts import NAMES, Comparison, Names
from jaxlens.lenses.compare.figures import FIGURES, Metric
from jaxlens.lenses.program.instructions import PLUMBING
from jaxlens.lenses.sentences import listed
from jaxlens.links.match.across_edits import Pairs
from jaxlens.report import Finding, Trust, amount, count

_LINES = 3  # lines named in a sentence
_FEW = 5  # kinds of instructions named in a sentence
_SENTENCE = ("fusions", "kernels", "flops", "temporaries", "peak", "on_chip", "moved", "bytes")
_WORTH = 0.01  # log2 of the ratio from which a figure is in the sentence (0.7%)


def findings(comparison: Comparison, names: Names = NAMES) -> Iterator[Finding]:
    """Yields the biggest consequence, changed instructions, and what could not be compared."""
    edited = not comparison.equations.equal
    head = subject(comparison.causes, edited)
    unchanged = "nothing of what runs changed" if edited else "the same program runs"
    alike = comparison.instructions is not None and comparison.instructions.equal
    recoded = f"other LLVM IR in {count(len(comparison.recoded), 'kernel')}"
    parts = [*_consequences(comparison), *([recoded] if comparison.recoded else [])]
    told = ", ".join(parts) or (unchanged if alike else "")
    words = _words(comparison.equations) or "the same equations"
    trust: Trust = "xla" if any(FIGURES[n].unit == "B" for n in _ranked(comparison)) else "counted"
    ids = (*comparison.new, *comparison.changed.values())
    yield Finding(f"{head}: {'; '.join(filter(None, (told, words)))}.", trust, ids)
    yield from _rest(comparison)
    yield from _missing(comparison, names)


def _consequences(comparison: Comparison) -> list[str]:
    """Returns phrases like `2 fusions instead of 3`, one for each ranked figure."""
    return [
        _consequence(FIGURES[name], was, now)
        for name in _ranked(comparison)
        if (was := comparison.figures[name][0]) is not None
        and (now := comparison.figures[name][1]) is not None
    ]


def _ranked(comparison: Comparison) -> list[str]:
    """Returns three or four figures that changed, the most changed first."""
    weights = {}
    for name in _SENTENCE:
        was, now = comparison.figures.get(name, (None, None))
        if was is None or now is None or was == now:
            continue
        weight = abs(log2((now + 1) / (was + 1)))
        if weight >= _WORTH:
            weights[name] = weight
    if "fusions" in weights:
        weights.pop("kernels", None)  # each fusion is a kernel, so it would be the same fact
    if weights.keys() >= {"temporaries", "peak"} and _grew(comparison, "peak") == _grew(
        comparison, "temporaries"
    ):
        weights.pop("peak")
    ranked = sorted(weights, key=lambda name: -weights[name])[:3]
    # Moving data to another memory space saves nothing, so both figures are named.
    if "on_chip" in weights and "on_chip" not in ranked and {"temporaries", "peak"} & set(ranked):
        ranked.append("on_chip")
    return ranked


def _grew(comparison: Comparison, name: str) -> bool:
    was, now = comparison.figures[name]
    return (now or 0) > (was or 0)


def _consequence(figure: Metric, was: int, now: int) -> str:
    if not figure.unit:
        return f"{count(now, figure.noun)} instead of {was:,}"
    less = "less" if now < was else "more"
    size = amount(abs(now - was), figure.unit)
    if figure.unit == "flop":
        return f"{amount(now, 'flop')} instead of {amount(was, 'flop')}"
    return f"{size} {less} {figure.noun} ({amount(now)}, was {amount(was)})"


def _words(pairs: Pairs) -> str:
    """Returns `4 equations are new (cell 2:3), 1 is gone`; "" for no change."""
    parts: list[str] = []
    for ids, verb, module in (
        (pairs.new, "new", pairs.after),
        (pairs.gone, "gone", pairs.before),
        (tuple(pairs.changed.values()), "changed", pairs.after),
    ):
        if not ids:
            continue
        noun = f"{count(len(ids), 'equation')} " if not parts else f"{len(ids):,} "
        state = verb if verb != "changed" else "of another type or form"
        places = listed(_places(ids, module), _LINES)
        is_ = "is" if len(ids) == 1 else "are"
        parts.append(f"{noun}{is_} {state}" + (f" ({places})" if places else ""))
    return ", ".join(parts)


def _places(ids: Sequence[str], module: Module) -> list[str]:
    """Returns the lines of some equations, those with most first."""
    wanted = set(ids)
    lines = Counter(str(n.owner) for n in module.nodes() if n.id in wanted and n.owner)
    return [line for line, _ in lines.most_common()]


def _rest(comparison: Comparison) -> Iterator[Finding]:
    """Yields the finding on new, gone and changed instructions of the optimised program."""
    pairs = comparison.instructions
    if pairs is None or pairs.equal:
        return
    new, gone = _computing(pairs.new, pairs.after), _computing(pairs.gone, pairs.before)
    parts = []
    if new:
        parts.append(f"{len(new):,} new ({_kinds(new)})")
    if gone:
        parts.append(f"{len(gone):,} gone ({_kinds(gone)})")
    if pairs.changed:
        parts.append(f"{len(pairs.changed):,} of another type or holding something else")
    if parts:
        ids = tuple(node.id for node in new)
        yield Finding(f"Instructions of the optimised program: {', '.join(parts)}.", ids=ids)


def _kinds(nodes: Sequence[Node]) -> str:
    """Returns `fusion x 2, add, 3 more kinds`, the most frequent first."""
    ranked = Counter(node.opcode for node in nodes).most_common()
    words = [f"{kind} x {n}" if n > 1 else kind for kind, n in ranked[:_FEW]]
    more = [f"{count(len(ranked) - _FEW, 'more kind')}"] if len(ranked) > _FEW else []
    return ", ".join([*words, *more])


def _computing(ids: Sequence[str], module: Module) -> list[Node]:
    wanted = set(ids)
    return [n for n in module.nodes() if n.id in wanted and n.opcode not in PLUMBING]


def _missing(comparison: Comparison, names: Names) -> Iterator[Finding]:
    """Yields one finding for each side and reason on figures that could not be compared."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for (side, name), why in comparison.missing.items():
        reasons.setdefault((side, why), []).append(FIGURES[name].title)
    for (side, why), titles in reasons.items():
        text = f"Not compared: {listed(titles, 6)}. {names[side]}: {why}."
        yield Finding(text, "unknown")
