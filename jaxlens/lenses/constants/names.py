"""Which captured array a constant of the optimised program is.

A constant bears no mark of where it came from, and others of the same type stand beside it: what
folding made of captured arrays, in XLA's passes or before them. So it is asked who reads it: where
the equation that its reader came from reads a captured array, the constant is that array.
"""

from collections.abc import Iterator
from functools import cached_property

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Node, Type

_Size = tuple[int | None, tuple[int | str, ...]]
_DEEP = 100  # bodies within bodies


class CapturedNames:
    """Names of one capture's constants; what that takes is worked out when the first is asked."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def name(self, instruction: str, type: Type) -> str:
        """The user's name of the array that a constant is; "" for none, or where it is not known.

        Args:
            instruction: The constant in the optimised program.
            type: Its type.
        """
        if not any(_alike(constant.type, type) for constant in self._constants):
            return ""
        given, foldable = self._before
        if instruction not in given and (type.bytes, type.shape) in foldable:
            return ""  # a pass may have made it
        found = {c.name for c in self._read_by(instruction) if _alike(c.type, type)}
        return found.pop() if len(found) == 1 else ""

    @cached_property
    def _constants(self) -> tuple[Constant, ...]:
        try:
            return self._capture.constants
        except LensError:
            return ()

    @cached_property
    def _before(self) -> tuple[set[str], set[_Size]]:
        """The constants of the program that XLA's passes begin with, and the types of what they
        could fold there.

        Most constants keep their names; those in a loop's body do not.
        """
        constants: set[str] = set()
        known: set[str] = set()
        foldable: set[_Size] = set()
        capture = self._capture
        try:  # `hlo` may be converted once more, which takes as long as a compile where it folds
            stage = capture.passes[0].stage if capture.has_all_passes else capture.hlo
            module = stage.module
        except LensError:
            return constants, foldable
        for node in module.nodes():
            if node.opcode == "constant":
                constants.add(node.id)
            elif node.operands and all(o in constants or o in known for o in node.operands):
                known.add(node.id)
                foldable.add((node.type.bytes, node.type.shape))
        return constants, foldable

    def _read_by(self, instruction: str) -> Iterator[Constant]:
        """The captured arrays that the equations read which the constant's readers come from."""
        try:
            found = self._capture.links.back(instruction, "jaxpr", "optimized")
        except LensError:
            return
        for id in found:
            region, node = self._nodes.get(id, ("", None))
            for operand in node.operands if node is not None else ():
                yield from self._meant(region, operand)

    @cached_property
    def _nodes(self) -> dict[str, tuple[str, Node]]:
        regions = self._capture.jaxpr.module.regions
        return {node.id: (name, node) for name, body in regions.items() for node in body.nodes}

    @cached_property
    def _callers(self) -> dict[str, tuple[str, Node]]:
        """Who calls each body, and within which."""
        return {
            inner: (region, node) for region, node in self._nodes.values() for inner in node.regions
        }

    def _meant(self, region: str, value: str) -> Iterator[Constant]:
        """The captured arrays that a value of a body can be, itself or as its caller gives it.

        A body's first parameters are the arrays that it closes over itself; its caller's operands
        stand for the rest, in order.
        """
        for _ in range(_DEEP):
            parameters = self._capture.jaxpr.module.regions[region].parameters
            names = [parameter.name for parameter in parameters]
            if value not in names:
                return
            place, caller = names.index(value), self._callers.get(region)
            given = len(caller[1].operands) if caller else len(self._capture.program.inputs)
            own = len(names) - given
            if place < own:
                type = parameters[place].type
                own_constants = self._constants[:own] if caller is None else self._constants
                if len(own_constants) == own and caller is None:
                    yield own_constants[place]
                else:
                    yield from (c for c in own_constants if _alike(c.type, type))
                return
            if caller is None:
                return
            region, value = caller[0], caller[1].operands[place - own]


def _alike(one: Type, other: Type) -> bool:
    return (one.shape, one.bytes) == (other.shape, other.bytes)  # stages name types differently
