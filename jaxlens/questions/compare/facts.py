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
from jaxlens.ir.graph import Node
from jaxlens.links.match import across_edits
from jaxlens.links.match.across_edits import Pairs, edited_lines
from jaxlens.program.figures import FIGURES, Figures
from jaxlens.program.sentences import line_text, opcodes
from jaxlens.program.subject import Given
from jaxlens.questions.compare.causes import Cause, causes

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
        lines: Lines whose equations changed.
        missing: Why a figure is missing, by the side's index and the figure's name.
        recoded: Names after of kernels with the same instructions but other LLVM IR.
    """

    causes: tuple[Cause, ...]
    figures: Mapping[str, tuple[int | None, int | None]]
    equations: Pairs = field(repr=False)
    instructions: Pairs | None = field(repr=False)
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
    instructions = None
    if compiled:
        modules = Given(lambda: [(c.optimized.module, c.stablehlo.module) for c in (before, after)])
        if sides := modules.or_else([]):
            instructions = across_edits.instructions(sides[0], sides[1], equations)
    return Comparison(
        causes(before, after, not equations.equal),
        figures,
        equations,
        instructions,
        tuple(_lines(equations)),
        {(n, name): why for n, side in enumerate((was, now)) for name, why in side.missing.items()},
        tuple(_recoded(before, after, instructions)) if instructions else (),
    )


def _equations(before: Capture, after: Capture) -> Pairs:
    names = [[leaf.name for leaf in capture.program.inputs] for capture in (before, after)]
    left, right = before.jaxpr.module, after.jaxpr.module
    was, now = line_text(before), line_text(after)
    earlier = edited_lines({was(n) for n in left.nodes()}, {now(n) for n in right.nodes()})

    def text_before(node: Node) -> str:
        """Returns the text before of a node's line, or its text if it was not edited."""
        text = now(node)
        return earlier.get(text, text)

    return across_edits.equations(left, right, (was, text_before), (names[0], names[1]))


def _lines(pairs: Pairs) -> Iterator[LineChange]:
    """Yields lines whose equations changed, in the order of the program after."""
    if pairs.equal:
        return
    old = {node.id: node for node in pairs.before.nodes()}
    new = {node.id: node for node in pairs.after.nodes()}
    line_before: dict[str, str] = {}  # by line after
    for tail, head in pairs.images.items():
        if old[tail].owner and new[head].owner:
            line_before.setdefault(str(new[head].owner), str(old[tail].owner))
    line_after = {was: now for now, was in line_before.items()}
    groups: dict[tuple[str, str], dict[str, list[Node]]] = {}

    def add(kind: str, was: str, now: str, node: Node) -> None:
        kinds = groups.setdefault((was, now), {"new": [], "gone": [], "changed": []})
        kinds[kind].append(node)

    kind = dict.fromkeys(pairs.changed.values(), "changed") | dict.fromkeys(pairs.new, "new")
    for node in new.values():
        if node.id in kind:
            now = str(node.owner or "")
            add(kind[node.id], line_before.get(now, ""), now, node)
    for id in pairs.gone:
        was = str(old[id].owner or "")
        add("gone", was, line_after.get(was, ""), old[id])
    for (was, now), kinds in groups.items():
        texts = [f"{kind} {opcodes(nodes)}" for kind, nodes in kinds.items() if nodes]
        ids = {kind: tuple(node.id for node in nodes) for kind, nodes in kinds.items()}
        yield LineChange(was, now, **ids, what="; ".join(texts))


def _recoded(before: Capture, after: Capture, pairs: Pairs) -> Iterator[str]:
    """Yields kernels with equal instructions but other LLVM IR: by a flag, version or CPU."""
    if not pairs.equal:
        return
    both = Given(lambda: (before.kernels, after.kernels)).or_else(((), ()))
    left, right = ({kernel.instruction: kernel for kernel in kernels} for kernels in both)
    for instruction, kernel in islice(left.items(), _KERNELS):
        other = right.get(pairs.images.get(instruction, ""))
        old = kernel.llvm_after.replace(kernel.name, other.name) if other else ""
        new = other.llvm_after if other else ""
        if other and old and new and old != new and _code(old) != _code(new):
            yield other.name


def _code(llvm: str) -> str:
    """Returns LLVM IR without metadata, whose numbers LLVM assigns in varying order."""
    return _METADATA.sub("", llvm)
