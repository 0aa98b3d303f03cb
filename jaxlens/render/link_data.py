"""Links between the nodes of one output: which nodes the viewer highlights for a selected one.

Each node has numbers, its atoms, and two nodes are linked if they share one; the viewer only
compares numbers. An atom is an op of StableHLO, since every stage names the ops that it came from;
an equation without an op is an atom of its own, and where nothing was lowered every equation is.

    jaxpr        e2: dot_general  atoms (7,)
    stablehlo    dot_general      atoms (7,)       all three are highlighted together
    optimized    loop_fusion      atoms (7, 8)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Parts: TypeAlias = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Atoms, or groups, of the expressions on a line, by the line's name and by the columns.

"12-18" begins at column 12 and ends before 18; "12-5+2" ends two lines further down. Columns count
UTF-8 bytes from 0; "" is an unknown place on the line.
"""


@dataclass(frozen=True, slots=True)
class Alike:
    """Links of equations e0, e1, ... of a program that was only traced; the atom of `eN` is N.

    Equations of one group have equal owners, call stacks and transforms.

    Attributes:
        runs: Run-length encoding of the groups of e0, e1, ...: length, group, length, group, ...
        lines: Groups that a source line owns, by the line's name.
        calls: Groups whose equations were made in calls from a source line, by the line's name.
        owned: The groups of `lines` by expression.
        called: The groups of `calls` by expression.
        stacks: Distinct call stacks, as in `Web`.
        stack: Index in `stacks` of each group's call stack; -1 for none.
        made: Transforms that made each group, by group.
    """

    runs: Sequence[int]
    lines: Mapping[str, tuple[int, ...]]
    calls: Mapping[str, tuple[int, ...]]
    owned: Parts
    called: Parts
    stacks: tuple[tuple[str, ...], ...]
    stack: tuple[int, ...]
    made: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """Number of equations."""
        return sum(self.runs[::2])


@dataclass(frozen=True, slots=True)
class Web:
    """Links between the stages of one output.

    Attributes:
        atoms: Atoms of each node, by stage ("jaxpr", "stablehlo", "hlo", "optimized") and id.
            A fusion has its own and those of its fused instructions. Kernels have the stage
            "kernels" and their name as id.
        lines: Atoms that a source line owns, by the line's name ("cell 3:4").
        calls: Atoms made in calls from a source line, without those that the line owns.
        owned: The atoms of `lines` by expression.
        called: The atoms of `calls` by expression.
        fates: Fate of each equation, in a sentence, by id.
        ends: `PassStage.index` of the pass dump that decided the fate, by equation id.
        how: How a node's links are known ("stamped", "inferred", ...), by stage and id. The id
            "" has the stage's most common value; only nodes that differ from it are listed.
        stacks: Distinct call stacks of Python lines, the owner first ("cell 3:4 in loss").
        stack: Index in `stacks` of an equation's call stack, by id.
        made: Transforms that made an equation, outermost first ("transpose", "jvp"), by id;
            without equations that no transform made.
        alike: Compact form of the same links, where the jaxpr is the only stage.
    """

    atoms: Mapping[str, Mapping[str, tuple[int, ...]]]
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calls: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    owned: Parts = field(default_factory=dict)
    called: Parts = field(default_factory=dict)
    fates: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    how: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stacks: tuple[tuple[str, ...], ...] = ()
    stack: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: Alike | None = None
