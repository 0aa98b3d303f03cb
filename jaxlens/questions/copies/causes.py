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
from jaxlens.ir.graph import Node
from jaxlens.ir.hlo.data_flow import DataFlow, major_first, moves
from jaxlens.ir.hlo.instructions import EXCHANGES, input_names, inputs_of, written
from jaxlens.ir.hlo.memory_spaces import space_of
from jaxlens.program.donated import aliases
from jaxlens.program.kernels import inside

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
        writer: The instruction that writes over it, or the loop that does; of a layout, that
            wants it.
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


class Causes:
    """Finds the cause of each copy in a compiled program."""

    def __init__(self, capture: Capture) -> None:
        inputs, self.module = capture.program.inputs, capture.optimized.module
        self._flow = DataFlow(self.module)
        self._names = input_names(self.module, inputs)
        self._donated = {id for id, one in inputs_of(self.module, inputs).items() if one.donated}
        self._results = dict(enumerate(f"`{result.name}`" for result in capture.outputs))
        self._aliases = aliases(self.module)

    def cause(self, copy: Node) -> CopyCause:
        """Returns why an instruction that only moves is there; of several in a row, the last."""
        while len(users := self._flow.users(copy.id)) == 1 and moves(users[0], self.module):
            copy = users[0]
        found = [*self._moved(copy), *self._overwritten(copy)]
        cause = min(found, key=lambda cause: [*CAUSES].index(cause.kind))
        loop = self._flow.loop(copy)
        return replace(cause, loop=loop.id, writer=cause.writer or loop.id) if loop else cause

    def _moved(self, copy: Node) -> Iterator[CopyCause]:
        """Yields the causes that lie in where or how the copy lies; at least "unknown"."""
        source, readers = self._flow.behind(copy.id)[-1], self._flow.readers(copy.id)
        first = readers[0].id if readers else ""
        if any(node.opcode.removesuffix("-start") in EXCHANGES for node in (source, *readers)):
            yield CopyCause("resharding", writer=first, reader=source.id)
        if space_of(written(copy)) != space_of(written(self._flow.nodes[copy.operands[0]])):
            yield CopyCause("memory", writer=first)
        yield from self._layout(copy, readers)
        yield CopyCause("unknown", writer=first)

    def _layout(self, copy: Node, readers: Sequence[Node]) -> Iterator[CopyCause]:
        """Yields what wants a value in another order, and the argument or result that has it.

        transpose dimensions={1,0}, then copy to {1,0}    of f32[2,3]: the order (1, 0)
        """
        node, axes = self._flow.axes(copy)
        has, wants = major_first(written(node)), major_first(written(copy))
        order = tuple(axes[n] for n in wants) if axes else ()
        if order == has:
            return
        number, results = self._number(node), self._flow.returned(self.module.body())
        wanting = (n for n in readers for p in inside(n, self.module) if p.opcode in _WANTING)
        writer = next(wanting, next(iter(readers), copy)).id
        if number is not None:
            of = self._value(node), order, number if order else None
            yield CopyCause("layout", *of, writer=writer)
        elif order and copy.id in results:
            place, own = results.index(copy.id), tuple(axes.index(n) for n in has)
            name = self._results.get(place, f"result {place}")
            yield CopyCause("layout", name, own, result=place, writer=node.id)
        else:
            yield CopyCause("layout", order=order, writer=writer, reader=node.id)

    def _overwritten(self, copy: Node) -> Iterator[CopyCause]:
        """Yields the causes that lie in who else reads and writes the value's buffer."""
        flow, region = self._flow, self._flow.home(copy)
        source = flow.behind(copy.id)[-1]
        value, number = self._value(source), self._number(source)
        for node in region.nodes:
            for behind in map(flow.behind, flow.over(node)):
                if copy in behind and number is not None and source.id not in self._donated:
                    yield CopyCause("kept", value, argument=number, writer=node.id)
                elif copy in behind:
                    yield from self._read(source, node, {node.id})
        replaced = {flow.state(node): node for node in region.nodes}
        given = {self._number(node): node for node in region.nodes}
        replaced |= {place: given[n] for n, place in self._aliases.items() if n in given}
        for place, name in enumerate(flow.returned(region)):
            made, old = flow.behind(name)[-1], replaced.get(place)
            if source not in (made, old):
                continue
            if flow.state(made) not in (None, place):
                other = self._value(old) if old is not None else f"place {place}"
                yield CopyCause("shifted", self._value(made), other=other)
            if made is source and number is not None:
                kind = "exchanged" if source.id in self._donated else "returned"
                other = self._results.get(place, f"result {place}")
                yield CopyCause(kind, value, argument=number, other=other)
            if old is not None:
                yield from self._read(old, made, set())

    def _read(self, old: Node, writer: Node, before: set[str]) -> Iterator[CopyCause]:
        """Yields who may read a value after it is written over."""
        for late in self._flow.late(old, writer, before)[:1]:
            of, reader = (self._value(old), (), self._number(old)), self._flow.reading(late, old)
            yield CopyCause("read", *of, writer=writer.id, reader=reader.id)

    def _number(self, node: Node) -> int | None:
        """Returns the number of a parameter of the program; None for another value."""
        is_entry = self._flow.home(node).name == self.module.entry
        return int(node.attrs["index"]) if is_entry and node.opcode == "parameter" else None

    def _value(self, node: Node) -> str:
        """Returns what a value is called: an argument, a carry as it begins, or its type."""
        name = self._names.get(self._flow.begun(node).id)
        return f"`{name}`" if name else f"the {node.type}"
