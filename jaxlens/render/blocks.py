"""Walks the blocks of a document in reading order, without recursion.

Folds and tabs nest as deep as programs do. The text and the HTML renderer take the same steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.render.document import Block, Fold, Tab, Tabs

Part = Block | Tab


@dataclass(frozen=True, slots=True)
class BlockStep:
    """One step of the walk.

    Attributes:
        move: "block" for a block without inner blocks; "enter" and "leave" around the content
            of a fold, a set of tabs or a tab; "skip" for one whose content is not visited.
        part: The block or tab.
        depth: Number of enclosing folds and tabs; a set of tabs adds none.
        place: Index among its siblings.
    """

    move: Literal["block", "enter", "leave", "skip"]
    part: Part
    depth: int
    place: int


def inside(part: Part) -> Sequence[Part] | None:
    """Returns the inner blocks or tabs of a part; None for one that cannot have any."""
    if isinstance(part, Tabs):
        return part.tabs
    return part.blocks if isinstance(part, Fold | Tab) else None


def walk(
    blocks: Sequence[Part], opens: Callable[[Fold | Tabs | Tab], bool] = lambda _: True
) -> Iterator[BlockStep]:
    """Yields the steps through `blocks`; the content of a part is visited if `opens(part)`."""
    pending = [BlockStep("enter", block, 0, i) for i, block in enumerate(blocks)][::-1]
    while pending:
        step = pending.pop()
        part, depth = step.part, step.depth
        if step.move == "leave":
            yield step
        elif not isinstance(part, Fold | Tabs | Tab):
            yield BlockStep("block", part, depth, step.place)
        elif not opens(part):
            yield BlockStep("skip", part, depth, step.place)
        else:
            yield step
            pending.append(BlockStep("leave", part, depth, step.place))
            deeper = depth + (not isinstance(part, Tabs))
            within = enumerate(inside(part) or ())
            pending += [BlockStep("enter", p, deeper, i) for i, p in within][::-1]
