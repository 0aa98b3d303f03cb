"""Finds the captured array of a constant of the optimised program.

A constant has no stamp, and results of folding captured arrays can have the same type. So it is
identified through its users: if the equation of a user reads a captured array, the constant is that
array:

    add.4 = add(p0, constant.2)      add.4 came from e7 = add x W: constant.2 is W
"""

from collections.abc import Iterator
from functools import cached_property

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Node, Type

_Size = tuple[int | None, tuple[int | str, ...]]
_DEEP = 100  # nesting depth of bodies up to which a variable is followed


class CapturedNames:
    """The names of one capture's constants; its lookup tables are computed on first use."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def name(self, instruction: str, type: Type) -> str:
        """Returns the user's name of the array in a constant; "" for none, or if it is not known.

        Args:
            instruction: Id of the constant in the optimised program.
            type: Its type.
        """
        if not any(_alike(constant.type, type) for constant in self._constants):
            return ""
        initial, foldable = self._before
        if instruction not in initial and (type.bytes, type.shape) in foldable:
            return ""  # it may be the result of a fold
        names = {c.name for c in self._read_by(instruction) if _alike(c.type, type)}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def _constants(self) -> tuple[Constant, ...]:
        try:
            return self._capture.constants
        except LensError:
            return ()

    @cached_property
    def _before(self) -> tuple[set[str], set[_Size]]:
        """The constants before XLA's first pass, and the sizes of what the passes could fold there.

        Most constants keep their names in the passes; those in a loop's body do not.
        """
        constants: set[str] = set()
        computed: set[str] = set()
        foldable: set[_Size] = set()
        capture = self._capture
        try:  # `hlo` may be another conversion, which can fold for as long as a compile takes
            stage = capture.passes[0].stage if capture.has_all_passes else capture.hlo
            module = stage.module
        except LensError:
            return constants, foldable
        for node in module.nodes():
            if node.opcode == "constant":
                constants.add(node.id)
            elif node.operands and all(o in constants or o in computed for o in node.operands):
                computed.add(node.id)
                foldable.add((node.type.bytes, node.type.shape))
        return constants, foldable

    def _read_by(self, instruction: str) -> Iterator[Constant]:
        """Yields the captured arrays that the equations behind a constant read."""
        try:
            linked = self._capture.links.linked("jaxpr", "stablehlo", "optimized")
        except LensError:
            return
        # Not those that were folded into it, whose operands are other arrays.
        atoms = linked.reached("optimized").all.get(instruction, ())
        equations = {path[-1]: None for atom in atoms for path in linked.atoms.equations[atom]}
        for region, node in (self._nodes[id] for id in equations if id in self._nodes):
            for operand in node.operands:
                yield from self._bound(region, operand)

    @cached_property
    def _nodes(self) -> dict[str, tuple[str, Node]]:
        regions = self._capture.jaxpr.module.regions
        return {node.id: (name, node) for name, body in regions.items() for node in body.nodes}

    @cached_property
    def _callers(self) -> dict[str, tuple[str, Node]]:
        """The equation that calls each body, and the body of that equation."""
        return {
            inner: (region, node) for region, node in self._nodes.values() for inner in node.regions
        }

    def _bound(self, region: str, value: str) -> Iterator[Constant]:
        """Yields the captured arrays that a variable of a body can be, directly or through callers.

        A body's first parameters are its constvars, the arrays that it closes over itself; the
        operands of its caller are bound to the others, in order.
        """
        for _ in range(_DEEP):
            parameters = self._capture.jaxpr.module.regions[region].parameters
            names = [parameter.name for parameter in parameters]
            if value not in names:
                return
            index, caller = names.index(value), self._callers.get(region)
            bound = len(caller[1].operands) if caller else len(self._capture.program.inputs)
            own = len(names) - bound
            if index < own:
                type = parameters[index].type
                own_constants = self._constants[:own] if caller is None else self._constants
                if len(own_constants) == own and caller is None:
                    yield own_constants[index]
                else:
                    yield from (c for c in own_constants if _alike(c.type, type))
                return
            if caller is None:
                return
            region, value = caller[0], caller[1].operands[index - own]


def _alike(a: Type, b: Type) -> bool:
    return (a.shape, a.bytes) == (b.shape, b.bytes)  # stages name types differently
