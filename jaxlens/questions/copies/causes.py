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
from typing import Any

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.instructions import EXCHANGES, input_names, inputs_of, users_of, written
from jaxlens.ir.hlo.memory_spaces import space_name, space_of
from jaxlens.program.donated import aliases
from jaxlens.program.kernels import inside

MOVES = frozenset({"copy", "copy-start", "transpose"})
_SAME = frozenset({"copy", "copy-start", "copy-done", "bitcast", "opt-barrier"})
_VIEWS = frozenset({"parameter", "bitcast", "constant", "tuple", "get-tuple-element"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_WANTING = ("convolution", "dot", "custom-call")  # operations that want operands in some order


@dataclass(frozen=True, slots=True)
class CopyCause:
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

    kind: str
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

    def cause(self, copy: Node) -> CopyCause:
        """Returns why an instruction that only moves is there; of several in a row, the last."""
        while len(users := self._users(self.home[copy.id].name).get(copy.id, [])) == 1:
            if not moves(users[0], self.module):
                break
            copy = users[0]
        region, source, sinks = self.home[copy.id], self.source(copy.id), self.readers(copy.id)
        first = next(iter(sinks), None)
        if any(node.opcode.removesuffix("-start") in EXCHANGES for node in (source, *sinks)):
            return _because("resharding", writer=first, reader=source)
        spaces = [space_of(written(node)) for node in (self.nodes[copy.operands[0]], copy)]
        if spaces[0] != spaces[1]:
            names = " to ".join(space_name(space, self._platform) for space in spaces)
            return _because("memory", "", names, first)
        if layout := self._layout(copy):
            return layout
        caller = self._caller.get(region.name)
        loop = caller if caller is not None and caller.opcode == "while" else None
        found = self._overwritten(source, sinks) or self._written(region, loop, source, copy)
        if found is None and caller is not None and caller.opcode == "conditional":
            found = _because("branch", writer=caller)
        return replace(found or _because("unknown", writer=first), loop=loop.id if loop else "")

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

    def _layout(self, copy: Node) -> CopyCause | None:
        """Returns what wants a value in another order, and the argument or result that has it.

        transpose dimensions={1,0}, then copy to {1,0}    of f32[2,3]: the order (1, 0)
        """
        node, sinks = copy, self.readers(copy.id)
        steps: list[Node] = []
        while parts := moves(node, self.module):
            steps, node = [*parts, *steps], self.nodes[node.operands[0]]
        start, end, number = written(node), written(copy), self._number(node)
        places = list(range(len(end.shape)))  # the dimension of the first operand that each is
        for step in steps:
            if step.opcode == "transpose":
                dimensions = step.attrs["dimensions"].strip("{}").split(",")
                places = [places[int(n)] for n in dimensions if n]
        has, wants = (_major_first(value.layout, len(places)) for value in (start, end))
        order, own = tuple(places[n] for n in wants), tuple(places.index(n) for n in has)
        is_known = len(start.shape) == len(places)
        if is_known and order == has:
            return None
        wanting = (n for n in sinks for part in inside(n, self.module) if part.opcode in _WANTING)
        wanted = next(wanting, next((n for n in sinks if n.opcode != "tuple"), None))
        is_known = is_known and end.shape == tuple(start.shape[n] for n in places)
        if not is_known:  # reshaped on the way
            return _because("layout", "", "", wanted, node)
        if number is not None:
            return _because("layout", self._value(node), "", wanted, order=order, argument=number)
        names = self._returned(self.module.body())
        if copy.id not in names:
            return _because("layout", "", "", wanted, node, order=order)
        place = names.index(copy.id)
        name = self._result(place)
        return _because("layout", name, "result", None, node, order=own, result=place)

    def _overwritten(self, source: Node, sinks: list[Node]) -> CopyCause | None:
        """Returns the cause of a copy that is updated in place, or that is a loop's carry."""
        value, number = self._value(source), self._number(source)
        for sink in sinks:
            for writer in self._loops_of(sink):
                over = [name for name in self._over(writer) if self.source(name) is source]
                if not over:
                    continue
                if source.opcode == "constant":
                    return _because("constant", value, "", writer)
                if number is not None and source.id not in self._donated:
                    return _because("kept", value, "", writer, argument=number)
                if len(over) > 1:
                    return _because("twice", value, "", writer, source)
                if late := self._late(source, sink, writer):
                    return _because("read", value, "", writer, late[0], argument=number)
        return None

    def _written(
        self, region: Region, loop: Node | None, source: Node, copy: Node
    ) -> CopyCause | None:
        """Returns the cause of a copy that a loop's carry or a result is, or that these replace."""
        names = self._returned(region)
        makers = [self.source(name) for name in names]
        places = [n for n, maker in enumerate(makers) if maker is source]
        slots = self._slots(region, loop)
        own = {n: old for n, old in slots.items() if source is old or n in places}
        for n in own if loop is not None else ():
            place = self._state(makers[n])
            if loop is not None and place not in (None, n):
                return _because("shifted", self._carry(loop, place), self._carry(loop, n), loop)
        if places and region.name == self.module.entry:
            place = names.index(copy.id) if copy.id in names else places[0]
            value, result, number = self._value(source), self._result(place), self._number(source)
            if number is not None:
                kind = "exchanged" if source.id in self._donated else "returned"
                return _because(kind, value, result, argument=number)
            if source.opcode == "constant":
                return _because("constant", value, result)
        for n, old in own.items():
            new, value, number = makers[n], self._value(old), self._number(old)
            if late := self._late(old, new):
                return _because("read", value, "", new, late[0], argument=number)
            if any(self.source(name) is old for name in new.operands):
                return _because("itself", value, "", new, new, argument=number)
        return _because("twice", self._value(source), reader=source) if len(places) > 1 else None

    def _returned(self, region: Region) -> tuple[str, ...]:
        """Returns the values that a computation returns, those of a tuple one by one."""
        root = self.nodes[region.results[0]]
        return root.operands if root.opcode == "tuple" else (root.id,)

    def _slots(self, region: Region, loop: Node | None) -> dict[int, Node]:
        """Returns the old value in the buffer of each result: a carry, or a donated argument."""
        if loop is not None:
            states = ((self._state(node), node) for node in region.nodes)
            return {place: node for place, node in states if place is not None}
        numbers = {self._number(node): node for node in region.nodes if node.opcode == "parameter"}
        return {n: numbers[p] for n, p in self._aliases.items() if p in numbers}

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

    def _late(self, old: Node, *writers: Node) -> list[Node]:
        """Returns the readers of a value that nothing makes run before a writer, loops last."""
        first = {writer.id for writer in writers} | self._ancestors(writers[0])
        late = [node for node in self.readers(old.id) if node.id not in first]
        late.sort(key=lambda node: node.opcode in ("while", "tuple"))
        return [self._inner(node, old) for node in late]

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

    def _state(self, node: Node) -> int | None:
        """Returns the place of a loop's carry that a value of its body is; None for none."""
        if node.opcode != "get-tuple-element":
            return None
        whole = self.nodes[node.operands[0]]
        return int(node.attrs["index"]) if whole.opcode == "parameter" else None

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
        return f"`{name}`" if name else f"the carry {loop.type.parts[place]}"

    def _number(self, node: Node) -> int | None:
        """Returns the number of a parameter of the program; None for another value."""
        is_entry = self.home[node.id].name == self.module.entry
        return int(node.attrs["index"]) if is_entry and node.opcode == "parameter" else None

    def _value(self, node: Node) -> str:
        """Returns what a value is called: an argument, a carry, or its type."""
        if node.id in self._names:
            return f"`{self._names[node.id]}`"
        caller = self._caller.get(self.home[node.id].name)
        place = self._state(node)
        if place is not None and caller is not None and caller.opcode == "while":
            return self._carry(caller, place)
        return f"the {node.type}"

    def _result(self, place: int) -> str:
        return f"`{self._results[place]}`" if place < len(self._results) else f"result {place}"


def _because(
    kind: str,
    value: str = "",
    other: str = "",
    writer: Node | None = None,
    reader: Node | None = None,
    loop: Node | None = None,
    **more: Any,
) -> CopyCause:
    writing, reading, around = (node.id if node else "" for node in (writer, reader, loop))
    return CopyCause(kind, value, other, writing, reading, around, **more)


def _major_first(layout: str, rank: int) -> tuple[int, ...]:
    """Returns dimensions from the slowest to the fastest; row-major where no layout is written."""
    digits = layout.strip("{}").partition(":")[0]
    order = [int(digit) for digit in digits.split(",") if digit.strip().isdigit()]
    return tuple(reversed(order)) if len(order) == rank else tuple(range(rank))
