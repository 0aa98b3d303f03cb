"""Who came from whom among the nodes of one output: what lights up when one is pointed at.

The viewer does not think. Everything that can be pointed at carries numbers, its atoms, and two
things are linked where they share one. An atom is an op of StableHLO, since every stage names
the ops that it came from; an equation that made no op is an atom of its own, and where nothing
was lowered every equation is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Alike:
    """Links of equations e0, e1, ... of which nothing was lowered; the atom of `eN` is N.

    Equations of one group have all this in common.

    Attributes:
        runs: How many equations of one group follow each other, and the group, in turn, from e0.
        lines: Groups that a source line owns, by the line's name.
        calls: Groups that were made in calls from a source line.
        stacks: As in `Web`.
        stack: Which of them each group has; -1 for none.
        made: Per group, the transforms that made it.
    """

    runs: Sequence[int]
    lines: Mapping[str, tuple[int, ...]]
    calls: Mapping[str, tuple[int, ...]]
    stacks: tuple[tuple[str, ...], ...]
    stack: tuple[int, ...]
    made: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """How many equations there are."""
        return sum(self.runs[::2])


@dataclass(frozen=True, slots=True)
class Web:
    """Links between the stages of one output.

    Attributes:
        atoms: Atoms of each node, by stage ("jaxpr", "stablehlo", "hlo", "optimized") and id.
            A fusion has its own and those of what it holds. Kernels stand under their names in
            stage "kernels".
        lines: Atoms that a source line owns, by the line's name ("cell 3:4").
        calls: Atoms that were made in calls from a source line, those that it owns left out.
        fates: What became of each equation, in a sentence, by id.
        ends: The pass dump that decided it, by equation id: `PassStage.index`.
        how: How a node's links are known ("stamped", "inferred", ...), by stage and id; nodes
            of the stage's usual way ("" as id) are left out.
        stacks: Distinct call stacks of Python lines, the owner first ("cell 3:4 in loss").
        stack: Which of them an equation has, by id.
        made: Transforms that made an equation, outermost first ("transpose", "jvp"), by id; left
            out where there are none.
        alike: The same in short, where the jaxpr is the only stage.
    """

    atoms: Mapping[str, Mapping[str, tuple[int, ...]]]
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calls: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fates: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    how: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stacks: tuple[tuple[str, ...], ...] = ()
    stack: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: Alike | None = None
