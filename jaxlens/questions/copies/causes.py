"""Why XLA copies a value, as concluded from the optimised program.

A place of a loop's carry has one buffer, which the body's result is written into; so has a donated
argument and the result that takes its place. XLA inserts a copy where the new value may be written
before the last read of the old one, that is where no data dependency puts the read first:

    total = sum(buf)                reader: the update does not depend on it
    new = at[i].set(buf, v)         writer: would write over buf
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.instructions import EXCHANGES, input_names, inputs_of, users_of, written
from jaxlens.ir.hlo.memory_spaces import space_name, space_of
from jaxlens.program.donated import aliases
from jaxlens.program.kernels import inside

Kind = Literal[
    "shifted",
    "read",
    "itself",
    "kept",
    "returned",
    "exchanged",
    "twice",
    "constant",
    "branch",
    "layout",
    "resharding",
    "memory",
    "unknown",
]
MOVES = frozenset({"copy", "copy-start", "transpose"})
_SAME = frozenset({"copy", "copy-start", "copy-done", "bitcast", "opt-barrier"})
_VIEWS = frozenset({"parameter", "bitcast", "constant", "tuple", "get-tuple-element"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_WANTING = ("convolution", "dot", "custom-call")  # operations that want operands in some order


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a value is copied.

    Attributes:
        kind: shifted (a carry goes on in another place), read (an old value is read after it is
            written over), itself (by the writer, elsewhere than where it writes), kept (of an
            argument that is not donated), returned (a result is an argument), exchanged (the
            result lies where another donated argument was), twice (one value, two buffers),
            constant, branch, layout, resharding, memory (another memory space), unknown.
        value: What the copied value, or the place that is written over, is called: `x`.
        other: Where it goes on: another place of the carry, or a result ("result" of a
            layout); between which memories it moves.
        writer: The instruction that writes over it; of a layout, that wants it.
        reader: The instruction that still reads it; of a layout, that makes it.
        loop: The loop whose carry it is; "" for none.
        order: Of a layout, the order in which the dimensions of `value` should lie; ().
        argument: The number of the parameter that it is; None for none.
        result: The number of the result that it is; None for none.
    """

    kind: Kind
    value: str = ""
    other: str = ""
    writer: str = ""
    reader: str = ""
    loop: str = ""
    order: tuple[int, ...] = ()
    argument: int | None = None
    result: int | None = None


def moves(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the copies and transposes of an instruction that does nothing else; else ()."""
    if node.opcode in MOVES:
        return (node,)
    if node.opcode != "fusion":
        return ()
    parts = [part for part in inside(node, module) if part.opcode not in _VIEWS]
    return tuple(parts) if all(part.opcode in MOVES for part in parts) else ()


class Causes:
    """Finds the cause of each copy in a compiled program."""

    def __init__(self, capture: Capture) -> None:
        program, self.module = capture.program, capture.optimized.module
        module = self.module
        self.nodes = {node.id: node for node in module.nodes()}
        self.home = {node.id: region for region in module.regions.values() for node in region.nodes}
        self._caller = {name: node for node in self.nodes.values() for name in node.regions}
        self._users = cache(lambda name: users_of(module.regions[name]))
        self._platform = program.target.platform
        self._names = input_names(module, program.inputs)
        self._donated = {id for id, one in inputs_of(module, program.inputs).items() if one.donated}
        self._results = [result.name for result in capture.outputs]
        self._aliases = {result: number for number, result in aliases(module).items()}

    def cause(self, copy: Node) -> Cause:
        """Returns why an instruction that only moves is there."""
        region, source, sinks = self.home[copy.id], self.source(copy.id), self.readers(copy.id)
        first = next(iter(sinks), None)
        if any(node.opcode.removesuffix("-start") in EXCHANGES for node in (source, *sinks)):
            return _because("resharding", writer=first, reader=source)
        spaces = [space_of(written(node)) for node in (self.nodes[copy.operands[0]], copy)]
        if spaces[0] != spaces[1]:
            names = " to ".join(space_name(space, self._platform) for space in spaces)
            return _because("memory", "", names, first)
        if order := self._order(copy):
            return self._layout(copy, order)
        caller = self._caller.get(region.name)
        loop = caller if caller is not None and caller.opcode == "while" else None
        if found := self._overwritten(region, source, sinks):
            return replace(found, loop=loop.id if loop else "")
        root = self.nodes[region.results[0]]
        if loop is not None:
            return self._carried(region, root, source, loop)
        if caller is not None:
            return _because(
                "branch" if caller.opcode == "conditional" else "unknown", writer=caller
            )
        return self._result(region, root, source, copy)

    def source(self, id: str) -> Node:
        """Returns what computes a value, behind copies and bitcasts."""
        node = self.nodes[id]
        while node.operands and (node.opcode in _SAME or moves(node, self.module)):
            node = self.nodes[node.operands[0]]
        return node

    def readers(self, id: str) -> list[Node]:
        """Returns what reads a value, itself or behind copies and bitcasts."""
        found: dict[str, Node] = {}
        pending = [id]
        for name in pending:
            for user in self._users(self.home[name].name).get(name, ()):
                if user.opcode in _SAME or moves(user, self.module):
                    pending.append(user.id)
                else:
                    found[user.id] = user
        return list(found.values())

    def _order(self, copy: Node) -> tuple[int, ...]:
        """Returns the dimensions of the operand in the order in which the result lies; () if alike.

        transpose dimensions={1,0}, then copy to {1,0}    of f32[2,3]: (1, 0)
        """
        steps = moves(copy, self.module)
        operand = steps[0].operands[0] if steps else ""
        start, end = (written(self.nodes[name]) for name in (operand, steps[-1].id))
        places = list(range(len(end.shape)))
        for step in reversed(steps):
            if step.opcode == "transpose":
                dimensions = [int(n) for n in step.attrs["dimensions"].strip("{}").split(",") if n]
                places = [dimensions[n] for n in places]
        order = tuple(places[n] for n in _major_first(end.layout, len(places)))
        is_alike = len(start.shape) != len(places) or order == _major_first(
            start.layout, len(places)
        )
        return () if is_alike else order

    def _layout(self, copy: Node, order: tuple[int, ...]) -> Cause:
        """Returns what wants a value in another order, and the argument or result that has it."""
        source, sinks = self.source(copy.id), self.readers(copy.id)
        region = self.home[copy.id]
        wanting = next((n for n in sinks if self._wants(n)), next(iter(sinks), None))
        is_entry = region.name == self.module.entry
        at = self._places(region, copy.id) if is_entry else []
        if (number := self._number(source)) is not None:
            name = self._name(source)
            return _because("layout", name, "", wanting, order=order, argument=number)
        if at:
            start = written(self.nodes[moves(copy, self.module)[0].operands[0]])
            own = self._result_order(copy, start.layout)
            return _because(
                "layout", self._result_name(at[0]), "result", reader=source, order=own, result=at[0]
            )
        return _because("layout", "", "", wanting, source, order=order)

    def _result_order(self, copy: Node, layout: str) -> tuple[int, ...]:
        """Returns the dimensions of a moved value in the order in which its operand lies."""
        places = list(range(len(written(copy).shape)))
        for step in moves(copy, self.module):
            if step.opcode == "transpose":
                dimensions = [int(n) for n in step.attrs["dimensions"].strip("{}").split(",") if n]
                places = [places[n] for n in dimensions]
        return tuple(places.index(n) for n in _major_first(layout, len(places)))

    def _wants(self, node: Node) -> bool:
        return any(part.opcode in _WANTING for part in inside(node, self.module))

    def _overwritten(self, region: Region, source: Node, sinks: list[Node]) -> Cause | None:
        """Returns the cause of a copy that is updated in place, or that is a loop's carry."""
        for writer in sinks:
            for user in self._loops_of(writer):
                over = [name for name in self._over(user) if self.source(name) is source]
                if not over:
                    continue
                readers = self._late(source.id, {user.id, writer.id}, writer)
                if source.opcode == "constant":
                    return _because("constant", str(source.type), writer=user)
                number = self._number(source)
                if number is not None and source.id not in self._donated:
                    return _because("kept", self._name(source), writer=user, argument=number)
                if len(over) > 1:
                    return _because("twice", self._value(source), writer=user, reader=source)
                if readers:
                    return _because(
                        "read", self._value(source), "", user, readers[0], argument=number
                    )
        return None

    def _loops_of(self, node: Node) -> Iterator[Node]:
        """Yields an instruction; of the tuple of a carry, the loop."""
        if node.opcode != "tuple":
            yield node
            return
        for user in self._users(self.home[node.id].name).get(node.id, ()):
            region = self.module.regions.get(user.regions[0]) if user.opcode == "call" else None
            called = self.nodes[region.results[0]] if region is not None else user
            if called.opcode == "while":  # XLA:CPU calls a small loop
                yield called

    def _over(self, node: Node) -> tuple[str, ...]:
        """Returns the operands that an instruction writes its result over."""
        match node.opcode:
            case "dynamic-update-slice":
                return node.operands[:1]
            case "scatter":
                return node.operands[: len(node.operands) // 2]
            case "while":
                return self._first(node)
            case "fusion" if node.regions[0] in self.module.regions:
                region = self.module.regions[node.regions[0]]
                root = self.nodes[region.results[0]]
                roots = root.operands if root.opcode == "tuple" else (root.id,)
                updates = [self.source(name) for name in roots]
                over = (self.source(n.operands[0]) for n in updates if n.opcode in _UPDATES)
                numbers = [int(n.attrs["index"]) for n in over if n.opcode == "parameter"]
                return tuple(node.operands[n] for n in numbers)
        return ()

    def _late(self, id: str, writers: set[str], writer: Node) -> list[Node]:
        """Returns the readers of a value that nothing makes run before a writer, loops last."""
        before = self._ancestors(writer)
        late = (n for n in self.readers(id) if n.id not in writers and n.id not in before)
        readers = sorted(late, key=lambda node: node.opcode in ("while", "tuple"))
        return [self._inner(node, self.source(id)) for node in readers]

    def _inner(self, node: Node, source: Node) -> Node:
        """Returns what in a fusion reads a value; of the tuple of a carry the loop; else itself."""
        node = next(self._loops_of(node), node)
        region = self.module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
        if region is None:
            return node
        pairs = zip(node.operands, region.parameters, strict=False)
        own = [value.name for name, value in pairs if self.source(name) is source]
        return next((user for name in own for user in self.readers(name)), node)

    def _ancestors(self, node: Node) -> set[str]:
        found: set[str] = set()
        pending = [node.id]
        while pending:
            names = set(self.nodes[pending.pop()].operands) - found
            found |= names
            pending += names
        return found

    def _places(self, region: Region, id: str) -> list[int]:
        """Returns the places of a region's result, or its tuple, that hold a value."""
        root = self.nodes[region.results[0]]
        names = root.operands if root.opcode == "tuple" else (root.id,)
        return [n for n, name in enumerate(names) if self.source(name) is self.source(id)]

    def _state(self, node: Node) -> int | None:
        """Returns the place of a loop's carry that a value of its body is; None for none."""
        if node.opcode != "get-tuple-element":
            return None
        whole = self.nodes[node.operands[0]]
        return int(node.attrs["index"]) if whole.opcode == "parameter" else None

    def _carried(self, region: Region, root: Node, source: Node, loop: Node) -> Cause:
        """Returns the cause of a copy of a carry, or of the value that replaces it."""
        places, place = self._places(region, source.id), self._state(source)
        if place is None and not places:
            return _because("unknown", loop=loop)
        to = places[0] if place is None else place
        new = self.source(root.operands[to]) if root.opcode == "tuple" else root
        if place is not None and (moved := [n for n in places if n != place]):
            return self._shifted(loop, place, moved[0])
        if (other := self._state(new)) is not None and other != to:
            return self._shifted(loop, other, to)
        if len(places) > 1:
            return _because("twice", self._value(source), "", loop, new, loop)
        old = next((n for n in region.nodes if self._state(n) == to), None)
        readers = self._late(old.id, {new.id, root.id}, new) if old is not None else []
        kind: Kind = "read" if readers else "itself"
        if old is None or (not readers and old not in map(self.source, new.operands)):
            return _because("unknown", loop=loop)
        return _because(kind, self._carry(loop, to), "", new, readers[0] if readers else new, loop)

    def _shifted(self, loop: Node, place: int, to: int) -> Cause:
        return _because(
            "shifted", self._carry(loop, place), self._carry(loop, to), loop, None, loop
        )

    def _first(self, loop: Node) -> tuple[str, ...]:
        """Returns the values that a carry begins as; () where these are no tuple."""
        node = self.nodes[loop.operands[0]]
        caller = self._caller.get(self.home[node.id].name)
        if node.opcode == "parameter" and caller is not None and caller.opcode == "call":
            node = self.nodes[caller.operands[int(node.attrs.get("index", "0"))]]
        return node.operands if node.opcode == "tuple" else ()

    def _carry(self, loop: Node, place: int) -> str:
        """Returns what a place of a carry is called: what it begins as, or its type."""
        first = self._first(loop)
        name = self._names.get(self.source(first[place]).id) if first else None
        if name:
            return f"`{name}`"
        return f"the carry {loop.type.parts[place]}"

    def _result(self, region: Region, root: Node, source: Node, copy: Node) -> Cause:
        """Returns the cause of a copy that is a result."""
        places = self._places(region, copy.id)
        names = root.operands if root.opcode == "tuple" else (root.id,)
        if not places:
            reader = next(iter(self.readers(copy.id)), None)
            place = next((n for n, p in self._aliases.items() if p == self._number(source)), -1)
            found = self._donated_late(region, place, names[place]) if place >= 0 else None
            return found or _because("unknown", reader=reader)
        place = next((n for n in places if names[n] == copy.id), places[0])
        name, own = self._result_name(place), self._number(source)
        if own is not None:
            kind: Kind = "exchanged" if source.id in self._donated else "returned"
            return _because(kind, self._name(source), name, argument=own)
        if source.opcode == "constant":
            return _because("constant", str(source.type), name)
        if found := self._donated_late(region, place, source.id):
            return found
        if len(places) > 1:
            return _because("twice", self._value(source), name, reader=source)
        return _because("unknown")

    def _donated_late(self, region: Region, place: int, made: str) -> Cause | None:
        """Returns the conflict of a result with the donated argument where it is written, if any.

        Args:
            region: The entry.
            place: The result's.
            made: Its value.
        """
        new, number = self.source(made), self._aliases.get(place)
        old = next((node for node in region.nodes if self._number(node) == number), None)
        if number is None or old is None:
            return None
        late = self._late(old.id, {new.id}, new)
        if late:
            return _because("read", self._name(old), "", new, late[0], argument=number)
        if old in map(self.source, new.operands):
            return _because("itself", self._name(old), "", new, new, argument=number)
        return None

    def _number(self, node: Node) -> int | None:
        """Returns the number of a parameter of the program; None for another value."""
        is_entry = self.home[node.id].name == self.module.entry
        if node.opcode != "parameter" or not is_entry:
            return None
        return int(node.attrs.get("index", "0"))

    def _name(self, parameter: Node) -> str:
        return f"`{self._names.get(parameter.id, parameter.id)}`"

    def _value(self, node: Node) -> str:
        """Returns what a value is called: an argument, a carry, or its type."""
        if node.id in self._names:
            return self._name(node)
        caller = self._caller.get(self.home[node.id].name)
        place = self._state(node)
        if place is not None and caller is not None and caller.opcode == "while":
            return self._carry(caller, place)
        return f"the {node.type}"

    def _result_name(self, place: int) -> str:
        return f"`{self._results[place]}`" if place < len(self._results) else f"result {place}"


def _because(
    kind: Kind,
    value: str = "",
    other: str = "",
    writer: Node | None = None,
    reader: Node | None = None,
    loop: Node | None = None,
    **more: Any,
) -> Cause:
    writing, reading, around = (node.id if node else "" for node in (writer, reader, loop))
    return Cause(kind, value, other, writing, reading, around, **more)


def _major_first(layout: str, rank: int) -> tuple[int, ...]:
    """Returns dimensions from the slowest to the fastest; row-major where no layout is written."""
    digits = layout.strip("{}").partition(":")[0]
    order = [int(digit) for digit in digits.split(",") if digit.strip().isdigit()]
    return tuple(reversed(order)) if len(order) == rank else tuple(range(rank))
