"""Follows every element of every array through a jaxpr: who waits for whom.

An array is an array of numbers of operations: what its elements were computed by. An equation that
moves elements moves the numbers; one that computes makes a new operation for each element of its
result. So `slice`, `pad` and `concatenate` leave no trace, and a tree that a program builds of
arrays half as long each time is the tree of its elements. The level of an operation is one more
than the highest level among the operations that it reads; inputs have level 0.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from jaxlens.ir.graph import Module, Node, Region, Value
from jaxlens.ir.jaxpr.bodies import loop_parts
from jaxlens.ir.jaxpr.equation_flops import ELEMENTWISE, TRANSCENDENTAL
from jaxlens.ir.jaxpr.refs import ON_REFS
from jaxlens.taps.moves import COMPUTED, PADDING, SAME, Ids, attribute, moved

_MOST = 400_000  # operations and what they read
_MOST_STEPS = 20_000  # equations, those of a loop for each of its steps
_WHOLE = (ELEMENTWISE | TRANSCENDENTAL) - SAME | {
    "integer_pow",
    "not",
    "exp2",
    "clamp",
    "select_n",
    "eq",
}
_ADDS = frozenset({"add", "add_any", "or"})
CALLS = frozenset(
    "jit closed_call remat checkpoint remat2 custom_jvp_call custom_vjp_call composite".split()
)
_REDUCTIONS = ("axes", "dimensions")
_REDUCES = re.compile(r"reduce$|reduce_(?:sum|prod|max|min|and|or|xor)$|arg(?:max|min)$").match


class TooLargeError(Exception):
    """There are more operations on elements than are followed; the text says of what."""


def follow(module: Module) -> "Flow":
    """Follows the elements of a program.

    Raises:
        TooLargeError: There are too many.
    """
    flow = Flow(module)
    body = module.body()
    inputs = [flow.inputs(shape_of(value)) for value in body.parameters]
    flow.leaves = len(flow.level)
    try:
        flow.results = flow.run(body, inputs)
    except RecursionError:
        raise TooLargeError("its calls nest too deep") from None
    return flow


def shape_of(value: Value) -> tuple[int, ...]:
    """Returns the shape of a value.

    Raises:
        TooLargeError: A dimension has no known size.
    """
    shape = tuple(size for size in value.type.shape if isinstance(size, int))
    if len(shape) != len(value.type.shape):
        raise TooLargeError("it has a dimension of unknown size")
    return shape


class Flow:
    """Operations on elements, numbered so that each comes after those that it reads.

    Args:
        module: The program.

    Attributes:
        leaves: The number of input elements, which come first.
        nodes: The equations that computed, in the order in which they ran.
        results: What each result's elements were computed by.
        opaque: Primitives of which no element was followed: each is one operation that reads all.
        ran: Primitives by id of the equations that ran, those that only move elements included,
            without those on arrays of no element.
    """

    def __init__(self, module: Module) -> None:
        self.leaves = 0
        self.nodes: list[Node] = []
        self.results: list[Ids] = []
        self.opaque: list[str] = []
        self.ran: dict[str, str] = {}
        self._module = module
        self._count = self._read = self._steps = 0
        self._level, self._equation = np.zeros((2, 1024), np.int64)  # with room for more
        self._reads: list[tuple[Ids, Ids]] = []

    @property
    def level(self) -> Ids:
        """Level of each operation."""
        return self._level[: self._count]

    @property
    def equation(self) -> Ids:
        """Index in `nodes` of each operation's equation; -1 for an input element."""
        return self._equation[: self._count]

    def reads(self) -> Iterator[tuple[int, int]]:
        """Yields each read: the operation that is read, and the one that reads it."""
        for tails, heads in self._reads:
            yield from zip(tails.tolist(), heads.tolist(), strict=True)

    def made_of(self) -> set[int]:
        """Returns what the elements of the results were computed by, or are."""
        return {n for array in self.results for n in array.ravel().tolist() if n >= 0}

    def inputs(self, shape: tuple[int, ...]) -> Ids:
        """Returns the numbers of the elements of an input."""
        size = min(prod(shape), _MOST + 1)  # more is refused, and is not to be allocated
        ids = self._grow(size, np.zeros(size, np.int64), -1)
        return ids.reshape(shape)

    def run(self, region: Region, operands: Sequence[Ids]) -> list[Ids]:
        """Runs a body, and returns its results."""
        called = len(operands) < len(region.parameters)  # a call gives no constants
        own = region.parameters[: region.constants] if called else ()
        given = [*(np.full(shape_of(value), COMPUTED) for value in own), *operands]
        values = dict(zip((v.name for v in region.parameters), given, strict=True))
        for node in region.nodes:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise TooLargeError(f"it takes over {_MOST_STEPS:,} steps, those of loops counted")
            results = self._results(node, [_read(name, values) for name in node.operands])
            values.update(zip((v.name for v in node.results), results, strict=True))
            if any(result.size for result in results):
                self.ran[node.id] = node.opcode
        return [_read(name, values) for name in region.results]

    def _results(self, node: Node, operands: list[Ids]) -> list[Ids]:
        shapes = [shape_of(value) for value in node.results]
        if node.opcode in ON_REFS:
            raise TooLargeError("it writes refs, whose elements are not followed")
        rule = _RULES.get(node.opcode)
        try:
            if rule is not None:
                return rule(self, node, operands, shapes)
            if node.opcode in _WHOLE:
                return [self._elementwise(node, operands, shapes[0])]
            if any(name in node.attrs for name in _REDUCTIONS) and _REDUCES(node.opcode):
                return self._reduction(node, operands, shapes)
            return moved(node, operands, shapes)
        except (LookupError, ValueError, SyntaxError, TypeError):
            return self._all_of_all(node, operands, shapes)

    def _elementwise(self, node: Node, operands: list[Ids], shape: tuple[int, ...]) -> Ids:
        """One operation per element. Adding the zero of a `pad` is none: it only moves."""
        rows = np.stack([np.broadcast_to(ids, shape).reshape(-1) for ids in operands], axis=1)
        if node.opcode in _ADDS and len(operands) == 2:
            a, b = rows.T
            result: Ids = np.where(a == PADDING, b, a)
            added = (rows != PADDING).all(axis=1)
            result[added] = self._operations(node, rows[added])
            return result.reshape(shape)
        return self._operations(node, rows).reshape(shape)

    def _operations(self, node: Node, rows: Ids) -> Ids:
        """Returns a new operation for each row, which reads the elements in it.

        What reads nothing that depends on an input is none.
        """
        is_read = rows >= 0
        level = np.where(is_read, self._level[rows] + 1, 0).max(axis=1, initial=0)
        result = np.full(len(rows), COMPUTED)
        live = level > 0
        if not live.any():
            return result
        self.nodes.append(node)
        result[live] = self._grow(int(live.sum()), level[live], len(self.nodes) - 1)
        self._read += int(is_read.sum())
        if self._count + self._read > _MOST:
            raise TooLargeError(f"it has over {_MOST:,} operations on elements and their operands")
        self._reads.append((rows[is_read], result[np.nonzero(is_read)[0]]))
        return result

    def _grow(self, size: int, level: Ids, equation: int) -> Ids:
        if self._count + size > _MOST:
            raise TooLargeError(f"it has over {_MOST:,} elements and operations on them")
        ids = np.arange(self._count, self._count + size)
        self._count += size
        if self._count > len(self._level):
            self._level = np.resize(self._level, 2 * self._count)
            self._equation = np.resize(self._equation, 2 * self._count)
        self._level[ids] = level
        self._equation[ids] = equation
        return ids

    def _reduction(
        self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]
    ) -> list[Ids]:
        """One operation per element of the result, which reads all that it is made of.

        In which order these are combined is for XLA to choose.
        """
        name = next(name for name in _REDUCTIONS if name in node.attrs)
        axes = attribute(node, name)
        array = operands[0]
        rest = [axis for axis in range(array.ndim) if axis not in axes]
        size = prod(shapes[0])
        rows = [
            operand.transpose([*rest, *axes]).reshape(size, -1)
            if operand.shape == array.shape and operand.ndim
            else np.broadcast_to(operand, (size,))[:, None]  # what the reduction begins with
            for operand in operands
        ]
        result = self._operations(node, np.concatenate(rows, axis=1))
        return [result.reshape(shape) for shape in shapes]

    def _all_of_all(
        self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]
    ) -> list[Ids]:
        """One operation that reads everything, for a primitive whose elements are not followed."""
        everything = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.ravel, operands)]))
        if (everything >= 0).any():
            self.opaque.append(node.opcode)
        one = self._operations(node, everything[None])
        return [np.broadcast_to(one, (prod(shape),)).reshape(shape) for shape in shapes]

    def product(self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]) -> list[Ids]:
        """A `dot_general`: an operation per element, which reads a row and a column."""
        contracted, batch = ast.literal_eval(node.attrs["dimension_numbers"])
        size = prod(shapes[0])
        read = []
        before: list[int] = []  # the left side's own axes come first in the result
        for side, array in enumerate(operands[:2]):
            free = [a for a in range(array.ndim) if a not in (*contracted[side], *batch[side])]
            order = [*batch[side], *free, *contracted[side]]
            sizes = [array.shape[axis] for axis in batch[side]]
            own = [array.shape[axis] for axis in free]
            depth = prod(array.shape[axis] for axis in contracted[side])
            after = [1] * (len(shapes[0]) - len(sizes) - len(before) - len(own))
            rows = array.transpose(order).reshape([*sizes, *before, *own, *after, depth])
            if size * depth > _MOST:
                raise TooLargeError(f"its {node.opcode} reads over {_MOST:,} elements")
            read.append(np.broadcast_to(rows, (*shapes[0], depth)).reshape(size, depth))
            before = [1] * len(free)
        return [self._operations(node, np.concatenate(read, axis=1)).reshape(shapes[0])]

    def call(self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]) -> list[Ids]:
        """The body of a jit, and of what else runs its body once."""
        region = self._module.regions[node.regions[0]]
        if len(region.parameters) != len(operands) + region.constants:
            raise LookupError("a call whose operands are not the body's")
        return self.run(region, operands)

    def scan(self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]) -> list[Ids]:
        """A loop: each step reads what the step before carried on."""
        body = self._module.regions[node.regions[0]]
        length, is_reversed = attribute(node, "length")[0], node.attrs["reverse"] == "True"
        _, fixed, carried = loop_parts(node)
        constants = operands[:fixed]
        carry = operands[fixed : fixed + carried]
        xs = operands[fixed + carried :]
        ys: list[list[Ids]] = []
        for step in reversed(range(length)) if is_reversed else range(length):
            results = self.run(body, [*constants, *carry, *(x[step] for x in xs)])
            carry = results[:carried]
            ys.append(results[carried:])
        if not ys:
            return [*carry, *(np.full(shape, COMPUTED) for shape in shapes[carried:])]
        return [*carry, *map(np.stack, zip(*ys[:: -1 if is_reversed else 1], strict=True))]

    def cond(self, node: Node, operands: list[Ids], shapes: list[tuple[int, ...]]) -> list[Ids]:
        """All branches, and for each element an operation that picks one of theirs."""
        index, *rest = operands
        branches = [self.run(self._module.regions[name], rest) for name in node.regions]
        results = []
        for shape, *values in zip(shapes, *branches, strict=True):
            size = prod(shape)
            flat = [np.broadcast_to(index, (size,)), *(value.reshape(-1) for value in values)]
            results.append(self._operations(node, np.stack(flat, axis=1)).reshape(shape))
        return results


def _read(name: str, values: Mapping[str, Ids]) -> Ids:
    """Returns an operand; a literal depends on nothing."""
    return values[name] if name in values else np.array(COMPUTED)


_Rule = Callable[[Flow, Node, list[Ids], list[tuple[int, ...]]], list[Ids]]
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(CALLS, Flow.call),
    "scan": Flow.scan,
    "cond": Flow.cond,
    "dot_general": Flow.product,
}
