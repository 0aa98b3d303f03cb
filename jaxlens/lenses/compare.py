"""What changed between two captures: an edit, another JAX version, another device, another flag.

Equations and instructions are aligned by what they compute and for which line, not by name or
position (`links.alike`), so that one line put in on top does not make all below it new. What a
backend does not give is named and left out of the comparison.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log2
from statistics import median
from typing import Protocol

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.graph import Module, Node
from jaxlens.lenses.causes import Cause, causes, edited_lines, line_text, subject
from jaxlens.lenses.figures import FIGURES, Figure, Figures
from jaxlens.lenses.fusion import PLUMBING
from jaxlens.lenses.kernels import inside
from jaxlens.lenses.report import (
    Cell,
    Finding,
    Overlay,
    Report,
    Table,
    Trust,
    amount,
    cells,
    count,
)
from jaxlens.lenses.sentences import listed, opcodes
from jaxlens.lenses.times import duration
from jaxlens.links import sides
from jaxlens.links.alike import Pairs

Names = tuple[str, str]
NAMES: Names = ("before", "after")
_LINES = 3  # lines named in a sentence
_ROWS = 60
_FEW = 5  # kinds of instructions named in a sentence
_KERNELS = 500  # whose code is compared
_SENTENCE = ("fusions", "kernels", "flops", "temporaries", "peak", "moved", "bytes")
_WORTH = 0.01  # changes below a percent are left to the table


@dataclass(frozen=True, slots=True)
class LineChange:
    """What changed in one line of the user's.

    Attributes:
        before: Where it stood; "" for a line that is new.
        after: Where it stands; "" for one that is gone.
        new: Equations that it makes and did not, by id after.
        gone: Equations that it made, by id before.
        changed: Equations of another type or with other attributes, by id after.
        what: What it makes more and less, in primitives.
    """

    before: str
    after: str
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    what: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two captures, aligned.

    Attributes:
        causes: What differs between them before any stage is looked at.
        figures: Both sides of each figure by name, None for what is not given: see `FIGURES`.
        equations: Who is who among the equations.
        instructions: Who is who among the optimised program's; None where one is not given.
        primitives: Equations by primitive on both sides.
        lines: Lines of which an equation changed.
        missing: Why a figure is not given, by the side's number and the figure's name.
        recoded: Kernels, by name after, whose instructions are the same and whose LLVM IR is not.
    """

    causes: tuple[Cause, ...]
    figures: Mapping[str, tuple[int | None, int | None]]
    equations: Pairs = field(repr=False)
    instructions: Pairs | None = field(repr=False)
    primitives: Mapping[str, tuple[int, int]]
    lines: tuple[LineChange, ...]
    missing: Mapping[tuple[int, str], str] = field(default_factory=dict)
    recoded: tuple[str, ...] = ()

    @property
    def new(self) -> tuple[str, ...]:
        """Equations that stand for none before, by id after."""
        return self.equations.new

    @property
    def gone(self) -> tuple[str, ...]:
        """Equations that none after stands for, by id before."""
        return self.equations.gone

    @property
    def changed(self) -> Mapping[str, str]:
        """Equations of another type or with other attributes: ids after by ids before."""
        return self.equations.changed

    @property
    def same(self) -> bool:
        """Whether the same program runs: no instruction, figure and kernel differs."""
        return (
            self.instructions is not None
            and self.instructions.equal
            and not self.recoded
            and all(was == now for was, now in self.figures.values())
        )


def compare(
    before: Capture, after: Capture, names: Names = NAMES, *, compiled: bool = True
) -> Report:
    """What changed, the biggest consequence first.

    Args:
        before: One capture: live or saved, of any target.
        after: The other.
        names: What the two are called in headings.
        compiled: Compare what they compile to; else the equations alone, without a compile.
    """
    seconds = times(before, after, names) if compiled else []
    return report(of(before, after, compiled=compiled), names, seconds)


def report(found: Comparison, names: Names = NAMES, seconds: Sequence[Table] = ()) -> Report:
    """Puts a comparison into sentences and tables."""
    tables = (
        _figures(found, names),
        _primitives(found, names),
        _by_line(found, names),
        *_fusions(found, names),
        *seconds,
    )
    new = dict.fromkeys(found.new, 1.0) | dict.fromkeys(found.changed.values(), 0.5)
    overlay = Overlay("new (1) or changed (0.5)", "jaxpr", new)
    full = tuple(table for table in tables if table.rows)
    return Report("What changed", tuple(findings(found, names)), full, (overlay,))


def of(before: Capture, after: Capture, *, compiled: bool = True) -> Comparison:
    """Aligns two captures; see `compare`."""
    was, now = Figures(before), Figures(after)
    equations = _equations(before, after)
    figures = {
        name: (was.get(name), now.get(name))
        for name, figure in FIGURES.items()
        if compiled or not figure.compiled
    }
    kinds = sorted({*was.primitives, *now.primitives})
    instructions = _instructions(before, after, equations) if compiled else None
    return Comparison(
        causes(before, after, not equations.equal),
        figures,
        equations,
        instructions,
        {kind: (was.primitives.get(kind, 0), now.primitives.get(kind, 0)) for kind in kinds},
        tuple(_lines(equations)),
        {(n, name): why for n, side in enumerate((was, now)) for name, why in side.missing.items()},
        tuple(_recoded(before, after, instructions)) if instructions else (),
    )


def _equations(before: Capture, after: Capture) -> Pairs:
    names = [[leaf.name for leaf in capture.program.inputs] for capture in (before, after)]
    left, right = before.jaxpr.module, after.jaxpr.module
    was, now = line_text(before), line_text(after)
    stood = edited_lines({was(n) for n in left.nodes()}, {now(n) for n in right.nodes()})

    def earlier(node: Node) -> str:
        """The text that a node's line had, where it was edited."""
        text = now(node)
        return stood.get(text, text)

    return sides.equations(left, right, (was, earlier), (names[0], names[1]))


def _instructions(before: Capture, after: Capture, equations: Pairs) -> Pairs | None:
    try:
        stages = [(c.optimized.module, c.stablehlo.module) for c in (before, after)]
    except UnavailableError:
        return None
    return sides.instructions(stages[0], stages[1], equations)


def _recoded(before: Capture, after: Capture, pairs: Pairs) -> Iterator[str]:
    """Kernels of the same instructions whose code differs: by a flag, a version or a CPU."""
    if not pairs.equal:
        return
    try:
        kernels = [{k.instruction: k for k in capture.kernels} for capture in (before, after)]
    except UnavailableError:
        return
    for instruction, kernel in islice(kernels[0].items(), _KERNELS):
        other = kernels[1].get(pairs.images.get(instruction, ""))
        theirs = other.llvm_after if other else ""
        mine = kernel.llvm_after.replace(kernel.name, other.name) if other else ""
        if other and mine and theirs and mine != theirs and _code(mine) != _code(theirs):
            yield other.name


def _code(llvm: str) -> str:
    """LLVM IR without its metadata, which LLVM numbers in another order each time."""
    return _METADATA.sub("", llvm)


_METADATA = re.compile(r"^(?:!|attributes ).*$|![\w.]* ?!\d+|!\d+", re.MULTILINE)


def findings(found: Comparison, names: Names = NAMES) -> Iterator[Finding]:
    """The biggest consequence, then what could not be compared."""
    edited = not found.equations.equal
    head = subject(found.causes, edited)
    unchanged = "nothing of what runs changed" if edited else "the same program runs"
    alike = found.instructions is not None and found.instructions.equal
    recoded = f"other LLVM IR in {count(len(found.recoded), 'kernel')}"
    parts = [*_consequences(found), *([recoded] if found.recoded else [])]
    told = ", ".join(parts) or (unchanged if alike else "")
    words = _words(found.equations) or "the same equations"
    trust: Trust = "xla" if any(FIGURES[n].unit == "B" for n in _ranked(found)) else "counted"
    ids = (*found.new, *found.changed.values())
    yield Finding(f"{head}: {'; '.join(filter(None, (told, words)))}.", trust, ids)
    yield from _rest(found)
    yield from _missing(found, names)


def _consequences(found: Comparison) -> list[str]:
    """`2 fusions instead of 3`, `4.2 MB less temporary memory (8.4 MB)`; at most three."""
    return [
        _consequence(FIGURES[name], was, now)
        for name in _ranked(found)
        if (was := found.figures[name][0]) is not None
        and (now := found.figures[name][1]) is not None
    ]


def _ranked(found: Comparison) -> list[str]:
    """Figures that changed by a percent or more, the most changed first; three at most."""
    weights = {}
    for name in _SENTENCE:
        was, now = found.figures.get(name, (None, None))
        if was is None or now is None or was == now:
            continue
        weight = abs(log2((now + 1) / (was + 1)))
        if weight >= _WORTH:
            weights[name] = weight
    if "fusions" in weights:
        weights.pop("kernels", None)  # each is one: said twice it would be no news
    if weights.keys() >= {"temporaries", "peak"} and _grew(found, "peak") == _grew(
        found, "temporaries"
    ):
        weights.pop("peak")
    return sorted(weights, key=lambda name: -weights[name])[:3]


def _grew(found: Comparison, name: str) -> bool:
    was, now = found.figures[name]
    return (now or 0) > (was or 0)


def _consequence(figure: Figure, was: int, now: int) -> str:
    if not figure.unit:
        return f"{count(now, figure.noun)} instead of {was:,}"
    less = "less" if now < was else "more"
    size = amount(abs(now - was), figure.unit)
    if figure.unit == "flop":
        return f"{amount(now, 'flop')} instead of {amount(was, 'flop')}"
    return f"{size} {less} {figure.noun} ({amount(now)}, was {amount(was)})"


def _words(pairs: Pairs) -> str:
    """`4 equations are new (cell 2:3), 1 is gone`."""
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
    """The lines of some equations, those with most first."""
    wanted = set(ids)
    lines = Counter(str(n.owner) for n in module.nodes() if n.id in wanted and n.owner)
    return [line for line, _ in lines.most_common()]


def _rest(found: Comparison) -> Iterator[Finding]:
    """What changed in the optimised program where no equation did, and the other way round."""
    pairs = found.instructions
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
    """`fusion x 2, add and 3 more kinds`, the most frequent first."""
    ranked = Counter(node.opcode for node in nodes).most_common()
    words = [f"{kind} x {n}" if n > 1 else kind for kind, n in ranked[:_FEW]]
    more = [f"{count(len(ranked) - _FEW, 'more kind')}"] if len(ranked) > _FEW else []
    return ", ".join([*words, *more])


def _computing(ids: Sequence[str], module: Module) -> list[Node]:
    wanted = set(ids)
    return [n for n in module.nodes() if n.id in wanted and n.opcode not in PLUMBING]


def _missing(found: Comparison, names: Names) -> Iterator[Finding]:
    """One sentence for each side and reason: what could not be compared."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for (side, name), why in found.missing.items():
        reasons.setdefault((side, why), []).append(FIGURES[name].title)
    for (side, why), titles in reasons.items():
        text = f"Not compared: {listed(titles, 6)}. {names[side]}: {why}."
        yield Finding(text, "unknown")


def _figures(found: Comparison, names: Names) -> Table:
    """Both sides of each figure."""
    rows = []
    for name, (was, now) in found.figures.items():
        if was is None and now is None:
            continue
        figure = FIGURES[name]
        sides_ = (_cell(was, figure), _cell(now, figure))
        rows.append((Cell(figure.title), *sides_, _difference(was, now, figure)))
    note = (
        "Equations, flops and bytes of arguments are counted over the jaxpr (a while loop's body "
        "once)."
    )
    if "temporaries" in found.figures:
        note += " Memory is XLA's buffer assignment, bytes accessed its cost analysis."
    return Table("Figures", ("", *names, "change"), tuple(rows), note, right=(1, 2, 3))


def _cell(value: int | None, figure: Figure) -> Cell:
    if value is None:
        return Cell("not given")
    return Cell(amount(value, figure.unit) if figure.unit else f"{value:,}", value)


def _difference(was: int | None, now: int | None, figure: Figure) -> Cell:
    if was is None or now is None:
        return Cell("")
    if was == now:
        return Cell("same", 0)
    sign = "+" if now > was else "-"
    size = amount(abs(now - was), figure.unit) if figure.unit else f"{abs(now - was):,}"
    share = f" ({(now - was) / was:+.0%})" if was else ""
    return Cell(f"{sign}{size}{share}", now - was)


def _primitives(found: Comparison, names: Names) -> Table:
    """Primitives of which there are more or fewer."""
    rows = [
        (*cells(kind, was, now), Cell(f"{now - was:+,}", now - was))
        for kind, (was, now) in found.primitives.items()
        if was != now
    ]
    rows.sort(key=lambda row: -abs(float(row[3].value or 0)))
    columns = ("primitive", *names, "change")
    return Table("Equations by primitive", columns, tuple(rows), right=(1, 2, 3))


def _lines(pairs: Pairs) -> Iterator[LineChange]:
    """Lines that make other equations than before, in the order of the program after."""
    if pairs.equal:
        return
    old = {node.id: node for node in pairs.before.nodes()}
    new = {node.id: node for node in pairs.after.nodes()}
    moved: dict[str, str] = {}  # where a line stood, by where it stands
    for tail, head in pairs.images.items():
        if old[tail].owner and new[head].owner:
            moved.setdefault(str(new[head].owner), str(old[tail].owner))
    came = {was: now for now, was in moved.items()}
    groups: dict[str, dict[str, list[Node]]] = {}

    def put(line: str, kind: str, node: Node) -> None:
        groups.setdefault(line, {"new": [], "gone": [], "changed": []})[kind].append(node)

    changed = set(pairs.changed.values())
    added = set(pairs.new)
    for id, node in new.items():
        if id in added or id in changed:
            put(f"+{node.owner or ''}", "new" if id in added else "changed", node)
    for id in pairs.gone:
        was = str(old[id].owner or "")
        put(f"+{came[was]}" if was in came else f"-{was}", "gone", old[id])
    for place, kinds in groups.items():
        now = place[1:] if place[0] == "+" else ""
        was = moved.get(now, "") if now else place[1:]
        what = "; ".join(f"{word} {opcodes(nodes)}" for word, nodes in kinds.items() if nodes)
        ids = {kind: tuple(node.id for node in nodes) for kind, nodes in kinds.items()}
        yield LineChange(was, now, **ids, what=what)


def _by_line(found: Comparison, names: Names) -> Table:
    """Lines of which an equation changed."""
    rows = tuple(
        (
            Cell(line.before or "-"),
            Cell(line.after or "-", ids=(*line.new, *line.changed)),
            *cells(len(line.new), len(line.gone), len(line.changed), line.what),
        )
        for line in found.lines[:_ROWS]
    )
    left = len(found.lines) - len(rows)
    note = f"{count(left, 'more line')} below these." if left > 0 else ""
    columns = (f"line {names[0]}", f"line {names[1]}", "new", "gone", "changed", "what")
    return Table("Equations by line", columns, rows, note, right=(2, 3, 4), stage="jaxpr")


def _fusions(found: Comparison, names: Names) -> Iterator[Table]:
    """Fusions that are new, gone or hold something else."""
    pairs = found.instructions
    if pairs is None:
        return
    old = {n.id: n for n in pairs.before.nodes() if n.opcode == "fusion"}
    new = {n.id: n for n in pairs.after.nodes() if n.opcode == "fusion"}
    rows = []
    for id in pairs.gone:
        if id in old:
            rows.append(_fusion(old[id], None, pairs))
    for tail, head in pairs.changed.items():
        if tail in old and head in new:
            rows.append(_fusion(old[tail], new[head], pairs))
    for id in pairs.new:
        if id in new:
            rows.append(_fusion(None, new[id], pairs))
    typed = len(rows)
    rows = [row for row in rows if row[2].text or row[3].text]
    typed -= len(rows)
    left = len(rows) - _ROWS
    note = "Fusions that hold what they held are left out."
    if typed:
        note += f" {count(typed, 'fusion')} of the same operations at other types, too."
    note += f" {count(left, 'more')} below these." if left > 0 else ""
    columns = (f"fusion {names[0]}", f"fusion {names[1]}", "holds more", "holds less")
    yield Table("Fusions", columns, tuple(rows[:_ROWS]), note, stage="optimized")


def _fusion(old: Node | None, new: Node | None, pairs: Pairs) -> tuple[Cell, ...]:
    left = inside(old, pairs.before) if old else ()
    right = inside(new, pairs.after) if new else ()
    held = {pairs.images.get(node.id) for node in left}
    kept = {node.id for node in right}
    more = opcodes(node for node in right if node.id not in held)
    less = opcodes(node for node in left if pairs.images.get(node.id) not in kept)
    ids = (new.id,) if new else ()
    return Cell(old.id if old else "-"), Cell(new.id if new else "-", ids=ids), *cells(more, less)


def times(before: Capture, after: Capture, names: Names) -> list[Table]:
    """Seconds of each step, where both were timed."""
    try:
        steps = [{t.step: t.seconds for t in capture.times} for capture in (before, after)]
    except LensError:
        return []
    both = [step for step in steps[0] if step in steps[1]]
    rows = tuple(
        (
            Cell(step),
            *(Cell(duration(side[step]), side[step]) for side in steps),
            Cell(f"x {steps[1][step] / steps[0][step]:.2f}" if steps[0][step] else ""),
        )
        for step in both
    )
    note = "Wall clock, measured once each: differences of a third mean nothing."
    columns = ("step", *names, "ratio")
    return [Table("Time per stage", columns, rows, note, volatile=True, right=(1, 2, 3))]


class Runs(Protocol):
    """Seconds of executions of both programs, as `stages/what_if.py` gives them."""

    @property
    def before(self) -> tuple[float, ...]: ...
    @property
    def after(self) -> tuple[float, ...]: ...
    @property
    def how(self) -> str: ...


def runs(measured: Runs, names: Names = NAMES) -> Table:
    """What running the two took."""
    rows = tuple(
        (
            Cell(name),
            Cell(f"{len(seconds):,}", len(seconds)),
            *(Cell(duration(s), s) for s in (median(seconds), min(seconds), max(seconds))),
        )
        for name, seconds in zip(names, (measured.before, measured.after), strict=True)
    )
    how = f"{measured.how[:1].upper()}{measured.how[1:]}."
    columns = ("", "runs", "median", "least", "most")
    return Table("Measured", columns, rows, how, volatile=True, right=(1, 2, 3, 4))
