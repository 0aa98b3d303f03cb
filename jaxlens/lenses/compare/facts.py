"""Two captures aligned: the facts of what changed between them.

Equations and instructions are aligned by what they compute and for which line, not by name or
position (`links.match.across_edits`), so that a line inserted on top does not make all below it
new. What a backend does not give is named and left out of the comparison.
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
_KERNELS = 500  # whose code is compared
_METADATA = re.compile(r"^(?:!|attributes ).*$|![\w.]* ?!\d+|!\d+", re.MULTILINE)


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
        """The text that a node's line had, where it was edited."""
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
