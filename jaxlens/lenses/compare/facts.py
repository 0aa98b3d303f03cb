"""Aligns two captures, and finds what changed between them.

Equations and instructions are aligned by value and source line, not by name or position
(`links.match.across_edits`), so that inserting a line on top does not make all equations below it
new. Figures that a backend does not provide are listed in `missing` and not compared.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Node
from jaxlens.lenses.compare.causes import Cause, causes, edited_lines, line_text
from jaxlens.lenses.compare.figures import FIGURES, Figures
from jaxlens.lenses.sentences import opcodes
from jaxlens.links.match import across_edits
from jaxlens.links.match.across_edits import Pairs

Names = tuple[str, str]
NAMES: Names = ("before", "after")
_KERNELS = 500  # kernels whose code is compared
_METADATA = re.compile(r"^(?:!|attributes ).*$|![\w.]* ?!\d+|!\d+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LineChange:
    """A source line whose equations changed.

    Attributes:
        before: The line before; "" for a new line.
        after: The line after; "" for a removed line.
        new: Ids after of the equations that are new.
        gone: Ids before of the equations that are gone.
        changed: Ids after of the equations with other types or parameters.
        what: The new, gone and changed primitives in words.
    """

    before: str
    after: str
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    what: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The alignment of two captures.

    Attributes:
        causes: Differences in settings, inputs and source.
        figures: Both sides of each figure of `FIGURES` by name; None for a missing one.
        equations: The pairs of equations.
        instructions: The pairs of optimised instructions; None if a program is missing.
        primitives: Number of equations on both sides by primitive.
        lines: Lines whose equations changed.
        missing: Why a figure is missing, by the side's index and the figure's name.
        recoded: Names after of kernels with the same instructions but other LLVM IR.
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
        """Ids after of equations without a pair."""
        return self.equations.new

    @property
    def gone(self) -> tuple[str, ...]:
        """Ids before of equations without a pair."""
        return self.equations.gone

    @property
    def changed(self) -> Mapping[str, str]:
        """Ids after by ids before, of equations with other types or parameters."""
        return self.equations.changed

    @property
    def same(self) -> bool:
        """Whether the same program runs: no instruction, figure or kernel differs."""
        return (
            self.instructions is not None
            and self.instructions.equal
            and not self.recoded
            and all(was == now for was, now in self.figures.values())
        )


def facts(before: Capture, after: Capture, *, compiled: bool = True) -> Comparison:
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
        """Returns the text before of a node's line, or its text if it was not edited."""
        text = now(node)
        return stood.get(text, text)

    return across_edits.equations(left, right, (was, earlier), (names[0], names[1]))


def _instructions(before: Capture, after: Capture, equations: Pairs) -> Pairs | None:
    try:
        stages = [(c.optimized.module, c.stablehlo.module) for c in (before, after)]
    except UnavailableError:
        return None
    return across_edits.instructions(stages[0], stages[1], equations)


def _lines(pairs: Pairs) -> Iterator[LineChange]:
    """Yields lines whose equations changed, in the order of the program after."""
    if pairs.equal:
        return
    old = {node.id: node for node in pairs.before.nodes()}
    new = {node.id: node for node in pairs.after.nodes()}
    moved: dict[str, str] = {}  # line before, by line after
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


def _recoded(before: Capture, after: Capture, pairs: Pairs) -> Iterator[str]:
    """Yields kernels with equal instructions but other LLVM IR: by a flag, version or CPU."""
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
    """Returns LLVM IR without metadata, whose numbers LLVM assigns in varying order."""
    return _METADATA.sub("", llvm)
