"""Why XLA copies a value, as concluded from who reads and writes its buffer.

A buffer is written over by an update in place, by a loop that its value enters, by the next value
of a loop's carry, and by the result that takes the place of a donated argument. XLA inserts a copy
where the new value may be written before the last read of the old one, that is where no data
dependency puts the read first:

    total = sum(buf)                reader: the update does not depend on it
    new = at[i].set(buf, v)         writer: would write over buf
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    "layout": "the {op} at {writer} wants {value} {order}",
    "transposed": "the program returns {value} {order}",
    "shifted": "in the carry of {writer}, {value} takes the place of {other}",
    "returned": "the program returns {value} unchanged, in a new buffer",
    "kept": "{writer} would write over {value}, which the caller keeps",
    "constant": "{writer} would write over {value}, a constant",
    "read": "{writer} writes over {value}, which {reader} may read later",
    "shared": "several places of the carry of {writer} begin with the same value, {value}",
    "twice": "{value} is returned several times, in a buffer each",
    "branch": "the branches of {writer} return in the same buffer",
    "unknown": "at {writer}, XLA does not say why",
}
"""The kinds of causes as clauses; of several that a copy has, the first counts."""


@dataclass(frozen=True, slots=True)
class CopyCause:
    """Why a value is copied.

    Attributes:
        kind: One of `CAUSES`.
        value: What the copied value, or the place that is written over, is called: `x`.
        order: Of a layout, the order in which the dimensions of `value` should lie; ().
        argument: The number of the parameter that it is; None for none.
        result: The number of the result whose layout it is; None for none.
        other: The place of the carry where it goes on.
        op: Of a layout, the opcode of what wants it.
        writer: The instruction that writes over it, or the loop that does; of a layout, that
            wants it.
        reader: The instruction that still reads it; of a layout, that makes it.
        loop: The loop whose carry it is; "" for none.
    """

    kind: str
    value: str = ""
    order: tuple[int, ...] = ()
    argument: int | None = None
    result: int | None = None
    other: str = ""
    op: str = ""
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
        yield CopyCause("unknown", writer=copy.id)

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
        wanting = (reader for reader in readers if self._op(reader) in _WANTING)
        value, writer = self._value(node), next(wanting, next(iter(readers), copy))
        by: dict[str, Any] = {"writer": writer.id, "op": self._op(writer)}
        if number is not None and copy.id in results:
            yield CopyCause("transposed", value, order)
        elif number is not None:
            yield CopyCause("layout", value, order, number if order else None, **by)
        elif copy.id in results:
            place, own = results.index(copy.id), tuple(axes.index(n) for n in has) if axes else ()
            value, by = self._results.get(place, ""), {"writer": node.id, "op": self._op(node)}
            yield CopyCause("layout", value, own, result=place, **by)
        else:
            yield CopyCause("layout", value, order, **by, reader=node.id)

    def _op(self, node: Node) -> str:
        """Returns the opcode of an instruction; of a fusion, of its convolution or product."""
        opcodes = (part.opcode for part in inside(node, self.module))
        return next((opcode for opcode in opcodes if opcode in _WANTING), node.opcode)

    def _overwritten(self, copy: Node) -> Iterator[CopyCause]:
        """Yields the causes that lie in who else reads and writes the value's buffer."""
        flow, region = self._flow, self._flow.home(copy)
        source = flow.behind(copy.id)[-1]
        value, number = self._value(source), self._number(source)
        for node in region.nodes:
            over = [flow.behind(id) for id in flow.over(node)]
            if not any(copy in behind for behind in over):
                continue
            if number is not None and source.id not in self._donated:
                yield CopyCause("kept", value, argument=number, writer=node.id)
            elif source.opcode == "constant":
                yield CopyCause("constant", value, writer=node.id)
            else:
                yield from self._read(source, node, {node.id})
            if sum(source in behind for behind in over) > 1:
                yield CopyCause("shared", value, writer=node.id)
        replaced = {flow.state(node): node for node in region.nodes}
        given = {self._number(node): node for node in region.nodes}
        replaced |= {place: given[n] for n, place in self._aliases.items() if n in given}
        returned = [flow.behind(id)[-1] for id in flow.returned(region)]
        caller = flow.caller(copy)
        if returned.count(source) > 1:
            yield CopyCause("twice", value, writer=source.id)
        for place, made in enumerate(returned):
            old = replaced.get(place)
            if source not in (made, old):
                continue
            if flow.state(made) not in (None, place):
                other = self._value(old) if old is not None else f"place {place}"
                yield CopyCause("shifted", self._value(made), other=other)
            if made is source and number is not None:
                yield CopyCause("returned", value, argument=number)
            if made is source and caller is not None and caller.opcode == "conditional":
                yield CopyCause("branch", value, writer=caller.id)
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
