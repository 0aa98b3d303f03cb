"""Why XLA copies a value, as concluded from who reads and writes its buffer.

A buffer is written over by an update in place, by a loop that its value enters, by the next value
of a loop's carry, and by the result that takes the place of a donated argument. XLA inserts a copy
where the new value may be written before the last read of the old one, that is where no data
dependency puts the read first:

    total = sum(buf)                reader: the update does not depend on it
    new = at[i].set(buf, v)         writer: would write over buf
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.hlo.instructions import EXCHANGES, input_names, inputs_of, users_of, written
from jaxlens.ir.hlo.memory_spaces import space_of
from jaxlens.program.donated import aliases
from jaxlens.program.kernels import inside

MOVES = frozenset({"copy", "copy-start", "transpose"})
_SAME = frozenset({"copy", "copy-start", "copy-done", "bitcast", "opt-barrier"})
_VIEWS = frozenset({"parameter", "bitcast", "constant", "tuple", "get-tuple-element"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_WANTING = frozenset({"convolution", "dot", "custom-call"})  # operands in some order
CAUSES = {
    "resharding": "the devices exchange parts of it, from {reader} to {writer}",
    "memory": "{writer} reads it in another memory space",
    "layout": "{writer} wants {value} {order}",
    "shifted": "in the carry of {writer}, {value} takes the place of {other}",
    "returned": "{other} is {value} as it is, which the caller keeps",
    "exchanged": "{other} is {value} as it is, and lies where another argument was donated",
    "kept": "{writer} would write over {value}, which the caller keeps",
    "read": "{writer} writes over {value}, which {reader} may read later",
    "unknown": "XLA does not say why",
}
"""The kinds of causes as clauses; of several that a copy has, the first counts."""


@dataclass(frozen=True, slots=True)
class CopyCause:
    """Why a value is copied; equal for values that differ in no more than name, order and number.

    Attributes:
        kind: One of `CAUSES`.
        value: What the copied value, or the place that is written over, is called: `x`.
        order: Of a layout, the order in which the dimensions of `value` should lie; ().
        argument: The number of the parameter that it is; None for none.
        result: The number of the result whose layout it is; None for none.
        other: Where it goes on: another place of the carry, or a result.
        writer: The instruction that writes over it; of a layout, that wants it.
        reader: The instruction that still reads it; of a layout, that makes it.
        loop: The loop whose carry it is; "" for none.
    """

    kind: str
    value: str = field(default="", compare=False)
    order: tuple[int, ...] = field(default=(), compare=False)
    argument: int | None = field(default=None, compare=False)
    result: int | None = field(default=None, compare=False)
    other: str = ""
    writer: str = ""
    reader: str = ""
    loop: str = ""


def moves(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the copies and transposes of an instruction that does nothing else; else ()."""
    if node.opcode != "fusion":
        return (node,) if node.opcode in MOVES else ()
    parts = tuple(part for part in inside(node, module) if part.opcode not in _VIEWS)
    return parts if all(part.opcode in MOVES for part in parts) else ()


class Causes:
    """Finds the cause of each copy in a compiled program."""

    def __init__(self, capture: Capture) -> None:
        inputs, self.module = capture.program.inputs, capture.optimized.module
        regions = self.module.regions.values()
        self._home = {node.id: region for region in regions for node in region.nodes}
        self._nodes = {node.id: node for region in regions for node in region.nodes}
        self._users = {name: u for region in regions for name, u in users_of(region).items()}
        self._callers = {name: node for node in self._nodes.values() for name in node.regions}
        self._names = input_names(self.module, inputs)
        self._donated = {id for id, one in inputs_of(self.module, inputs).items() if one.donated}
        self._results = dict(enumerate(f"`{result.name}`" for result in capture.outputs))
        self._aliases = aliases(self.module)

    def cause(self, copy: Node) -> CopyCause:
        """Returns why an instruction that only moves is there; of several in a row, the last."""
        while len(users := self._users.get(copy.id, ())) == 1 and moves(users[0], self.module):
            copy = users[0]
        found = [*self._moved(copy), *self._overwritten(copy)]
        cause = min(found, key=lambda cause: [*CAUSES].index(cause.kind))
        caller = self._callers.get(self._home[copy.id].name)
        is_loop = caller is not None and caller.opcode == "while"
        return replace(cause, loop=caller.id) if caller is not None and is_loop else cause

    def _moved(self, copy: Node) -> Iterator[CopyCause]:
        """Yields the causes that lie in where or how the copy lies; at least "unknown"."""
        source, readers = self._behind(copy.id)[-1], self._readers(copy.id)
        first = readers[0].id if readers else ""
        if any(node.opcode.removesuffix("-start") in EXCHANGES for node in (source, *readers)):
            yield CopyCause("resharding", writer=first, reader=source.id)
        if space_of(written(copy)) != space_of(written(self._nodes[copy.operands[0]])):
            yield CopyCause("memory", writer=first)
        yield from self._layout(copy, readers)
        yield CopyCause("unknown", writer=first)

    def _layout(self, copy: Node, readers: Sequence[Node]) -> Iterator[CopyCause]:
        """Yields what wants a value in another order, and the argument or result that has it.

        transpose dimensions={1,0}, then copy to {1,0}    of f32[2,3]: the order (1, 0)
        """
        steps: list[Node] = []
        node = copy
        while parts := moves(node, self.module):
            steps, node = [*parts, *steps], self._nodes[node.operands[0]]
        start, end = written(node), written(copy)
        axes = list(range(len(start.shape)))  # the dimension of `node` that each one is
        is_known = all(len(written(step).shape) == len(axes) for step in steps)
        for step in steps:
            if is_known and step.opcode == "transpose":
                axes = [axes[int(n)] for n in step.attrs["dimensions"].strip("{}").split(",")]
        has, order = _major_first(start), ()
        if is_known and end.shape == tuple(start.shape[n] for n in axes):  # not reshaped
            order = tuple(axes[n] for n in _major_first(end))
            if order == has:
                return
        number, results = self._number(node), self._returned(self.module.body())
        if order and number is None and copy.id in results:
            place, own = results.index(copy.id), tuple(axes.index(n) for n in has)
            name = self._results.get(place, f"result {place}")
            yield CopyCause("layout", name, own, result=place, writer=node.id)
            return
        wanting = (n for n in readers for p in inside(n, self.module) if p.opcode in _WANTING)
        writer = next(wanting, next(iter(readers), copy)).id
        if number is not None:
            number = number if order else None
            yield CopyCause("layout", self._value(node), order, number, writer=writer)
        else:
            yield CopyCause("layout", order=order, writer=writer, reader=node.id)

    def _overwritten(self, copy: Node) -> Iterator[CopyCause]:
        """Yields the causes that lie in who else reads and writes the value's buffer."""
        source, region = self._behind(copy.id)[-1], self._home[copy.id]
        value, number = self._value(source), self._number(source)
        for node in region.nodes:
            for behind in map(self._behind, self._over(node)):
                if copy in behind and number is not None and source.id not in self._donated:
                    yield CopyCause("kept", value, argument=number, writer=node.id)
                elif copy in behind:
                    yield from self._read(source, node, {node.id})
        replaced = {self._place(node): node for node in region.nodes}
        for place, name in enumerate(self._returned(region)):
            made, old = self._behind(name)[-1], replaced.get(place)
            if source not in (made, old):
                continue
            if self._number(made) is None and self._place(made) not in (None, place):
                other = self._value(old) if old is not None else f"place {place}"
                loop = self._callers[region.name].id
                yield CopyCause("shifted", self._value(made), other=other, writer=loop)
            if made is source and number is not None:
                kind = "exchanged" if source.id in self._donated else "returned"
                other = self._results.get(place, f"result {place}")
                yield CopyCause(kind, value, argument=number, other=other)
            if old is not None:
                yield from self._read(old, made, set())

    def _over(self, node: Node) -> Sequence[str]:
        """Returns the operands that an instruction writes its result over."""
        if node.opcode in _UPDATES:
            return node.operands[:1]
        if node.opcode in ("while", "call"):
            return self._first(node)
        if node.opcode != "fusion" or node.regions[0] not in self.module.regions:
            return ()
        made = [self._behind(id)[-1] for id in self._returned(self.module.regions[node.regions[0]])]
        over = [self._behind(n.operands[0])[-1] for n in made if n.opcode in _UPDATES]
        return [node.operands[int(n.attrs["index"])] for n in over if n.opcode == "parameter"]

    def _read(self, old: Node, writer: Node, before: set[str]) -> Iterator[CopyCause]:
        """Yields who reads a value, and that nothing makes run before what writes over it."""
        pending = [writer.id]
        for name in pending:
            new = set(self._nodes[name].operands) - before
            before |= new
            pending += new
        late = [node for node in self._readers(old.id) if node.id not in before]
        late.sort(key=lambda node: (node is writer, node.opcode in ("while", "call", "tuple")))
        for node in late[:1]:
            region = self.module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
            pairs = zip(node.operands, region.parameters if region else (), strict=False)
            own = [value.name for id, value in pairs if self._behind(id)[-1] is old]
            reader = next((user for name in own for user in self._readers(name)), node)
            of = self._value(old), (), self._number(old)
            yield CopyCause("read", *of, writer=writer.id, reader=reader.id)

    def _behind(self, id: str) -> list[Node]:
        """Returns a value and what it is a copy of, back to what computes it."""
        nodes = [self._nodes[id]]
        while nodes[-1].operands and (nodes[-1].opcode in _SAME or moves(nodes[-1], self.module)):
            nodes.append(self._nodes[nodes[-1].operands[0]])
        return nodes

    def _readers(self, id: str) -> list[Node]:
        """Returns what reads a value, itself or behind copies; of a loop's tuple, the loop."""
        found: dict[str, Node] = {}
        pending = [id]
        for name in pending:
            for user in self._users.get(name, ()):
                if user.opcode in _SAME or moves(user, self.module):
                    pending.append(user.id)
                else:
                    is_tuple = user.opcode == "tuple"
                    users = self._users.get(user.id, [user]) if is_tuple else [user]
                    found |= {user.id: user for user in users}
        return list(found.values())

    def _returned(self, region: Region) -> Sequence[str]:
        """Returns the values that a computation returns, those of a tuple one by one."""
        root = self._nodes[region.results[0]]
        return root.operands if root.opcode == "tuple" else (root.id,)

    def _first(self, loop: Node) -> Sequence[str]:
        """Returns the values that a loop, or the call of one, begins with; () where unknown."""
        node = self._nodes[loop.operands[0]] if loop.operands else loop
        caller = self._callers.get(self._home[node.id].name)
        if node.opcode == "parameter" and caller is not None and caller.opcode == "call":
            node = self._nodes[caller.operands[int(node.attrs["index"])]]  # XLA:CPU: a small loop
        return node.operands if node.opcode == "tuple" else ()

    def _number(self, node: Node) -> int | None:
        """Returns the number of a parameter of the program; None for another value."""
        is_entry = self._home[node.id].name == self.module.entry
        return int(node.attrs["index"]) if is_entry and node.opcode == "parameter" else None

    def _place(self, node: Node) -> int | None:
        """Returns the place of a carry, or of a result, whose buffer a value has; else None."""
        if (number := self._number(node)) is not None:
            return self._aliases.get(number)
        caller = self._callers.get(self._home[node.id].name)
        is_state = node.opcode == "get-tuple-element" and caller and caller.opcode == "while"
        is_state = is_state and self._nodes[node.operands[0]].opcode == "parameter"
        return int(node.attrs["index"]) if is_state else None

    def _value(self, node: Node) -> str:
        """Returns what a value is called: an argument, a carry as it begins, or its type."""
        start, what = node, "the"
        while self._number(start) is None and (place := self._place(start)) is not None:
            what = "the carry"
            if not (first := self._first(self._callers[self._home[start.id].name])):
                break
            start = self._behind(first[place])[-1]
        name = self._names.get(start.id)
        return f"`{name}`" if name else f"{what} {node.type}"


def _major_first(type_: Type) -> tuple[int, ...]:
    """Returns dimensions from the slowest to the fastest; row-major where no layout is written."""
    digits = type_.layout.strip("{}").partition(":")[0]
    order = [int(digit) for digit in digits.split(",") if digit.strip().isdigit()]
    rank = len(type_.shape)
    return tuple(reversed(order)) if len(order) == rank else tuple(range(rank))
