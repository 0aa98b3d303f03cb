"""Constants of a program: arrays that it closes over, and results of XLA's constant folding.

A captured array is part of the program: it is copied into StableHLO, HLO and the executable, XLA
may compute with it at compile time, and another value needs another trace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant, PassStage
from jaxlens.links.match.instruction_fates import between
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.program.closed_over import largest_first
from jaxlens.program.compile_parts import FOLDING
from jaxlens.report import count

_ENOUGH = 30_000_000  # characters of dumps that are read to list folds


@dataclass(frozen=True, slots=True)
class Folded:
    """An instruction that was computed at compile time.

    Attributes:
        id: The instruction before the pass.
        opcode: Its opcode.
        constant: The constant that it became.
        type: Its type as text.
        bytes: Its bytes; None where unknown.
        line: The source line that owns it; "" for none.
        step: Index of the pass's dump.
        own: Whether that line is the user's.
    """

    id: str
    opcode: str
    constant: str
    type: str
    bytes: int | None
    line: str
    step: int
    own: bool


def folds(stages: Sequence[PassStage]) -> tuple[tuple[Folded, ...], str]:
    """Returns what the constant folding passes computed, and what was not read, in words.

    Such an instruction became a constant from the dump before the pass to the dump after it, and
    its operands are gone. What MLIR folds while it converts StableHLO, of arrays that are closed
    over alone, no dump shows.
    """
    folded: list[Folded] = []
    programs = NumberedModules()
    read = unread = 0
    for earlier, later in pairwise(stages):
        if not (later.changed and later.name == FOLDING):
            continue
        size = len(earlier.stage.raw) + len(later.stage.raw)
        if read + size > _ENOUGH and read:
            unread += 1
            continue
        read += size
        folded += _pass_folds(earlier, later, programs)
    missing = f"{count(unread, 'dump')} of it were not read: too long" if unread else ""
    return tuple(folded), missing


def _pass_folds(
    earlier: PassStage, later: PassStage, programs: NumberedModules
) -> Iterator[Folded]:
    """Yields what one run of the pass computed."""
    before, after = earlier.stage.module, later.stage.module
    fates = between(before, after, (), programs).fates
    nodes = {node.id: node for node in before.nodes()}
    constants = {node.id: node for node in after.nodes() if node.opcode == "constant"}
    became = {f.id: f.into[0] if f.into else f.note.removeprefix("into ") for f in fates.values()}
    roots = {
        id: constants[name]
        for id, name in became.items()
        if name in constants and nodes[id].opcode != "constant"
    }
    for id, constant in roots.items():
        node = nodes[id]
        yield Folded(
            id,
            node.opcode,
            constant.id,
            str(constant.type),
            constant.type.bytes,
            str(node.owner or ""),
            later.index,
            node.owner is not None and not node.owner.library,
        )


NOT_COMPILED = "not compiled"


@dataclass(frozen=True, slots=True)
class Captured:
    """The constants of a program.

    Attributes:
        constants: Arrays that it closes over, the largest first.
        folded: What constant folding computed, in order.
        missing: Why `folded` is not known; "" if it is.
    """

    constants: tuple[Constant, ...]
    folded: tuple[Folded, ...] = ()
    missing: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all arrays that the program closes over."""
        return sum(constant.bytes for constant in self.constants)

    @property
    def folded_bytes(self) -> int:
        """Sum of the bytes of all folded constants."""
        return sum(fold.bytes or 0 for fold in self.folded)


def facts(capture: Capture, compiled: bool = True) -> Captured:
    """Returns the constants of a capture.

    Args:
        capture: Any capture.
        compiled: Whether to read the compile's constants too; needs the dumps of all passes.
    """
    constants = largest_first(capture)
    if not compiled:
        return Captured(constants, missing=NOT_COMPILED)
    folded: tuple[Folded, ...] = ()
    try:
        folded, missing = folds(capture.passes)
    except LensError as why:
        missing = str(why)
    return Captured(constants, folded, missing)
