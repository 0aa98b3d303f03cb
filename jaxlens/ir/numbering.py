"""Global value numbering: two HLO instructions get one number where they compute one value.

A number stands for an expression: opcode, type without layout, attributes that change the
meaning, called computations and the numbers of the operands. Fusions and calls are looked
through, so an instruction keeps its number when a fusion swallows it; each copy that fusion
makes of it has that number too. Numbers are interned in a `Numbers` table and not hashed, so
equal numbers are equal expressions and never a coincidence.

Inside the body of a loop, a branch or a reducer, numbers are relative to that body's
parameters; see `links.relate` for how bodies are paired first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from jaxlens.ir import hlo_text
from jaxlens.ir.graph import Module, Node, Region, Type

# Opcodes whose called computation is part of the instruction's own region.
_INLINED = frozenset({"fusion", "call"})
# Attributes that say nothing about the value: where it came from, how it is to be run, which
# computations it calls (these are compared by what they compute).
_SILENT = frozenset({
    "metadata", "backend_config", "calls", "to_apply", "condition", "body", "select", "scatter",
    "branch_computations", "true_computation", "false_computation", "called_computations",
    "sharding", "frontend_attributes", "control-predecessors", "channel_id", "origin", "kind",
    "operand_precision", "statistics", "output_to_operand_aliasing", "async_execution_thread",
    "execution_thread", "schedule", "original_value", "stack_frame_id",
})  # fmt: skip
_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
# Opcodes that hand their first operand on unchanged.
_TRANSPARENT = frozenset({"copy", "opt-barrier", "copy-done"})
# The same attributes and operands do not make the same value here.
_IMPURE = frozenset({
    "rng", "rng-get-and-update-state", "infeed", "outfeed", "send", "recv", "after-all",
})  # fmt: skip
_EXPANSION = 20  # calls may blow a program up this many times before they are numbered unopened

Key = tuple[object, ...]


@dataclass(slots=True)
class Numbers:
    """The table of expressions. Modules that are compared must share one."""

    _numbers: dict[Key, int] = field(default_factory=dict)
    _parts: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, key: Key) -> int:
        """The number of an expression, new if it was not met before."""
        return self._numbers.setdefault(key, len(self._numbers))

    def tuple_of(self, parts: tuple[int, ...]) -> int:
        """The number of a tuple, whose parts `part` gives back."""
        number = self.of(("tuple", *parts))
        self._parts[number] = parts
        return number

    def part(self, number: int, index: str) -> int:
        """The number of one element of a tuple."""
        parts = self._parts.get(number)
        if parts is not None and index.isdigit() and int(index) < len(parts):
            return parts[int(index)]
        return self.of(("get-tuple-element", index, number))


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An instruction at one place: `number` is its value there."""

    id: str
    number: int


@dataclass(frozen=True, slots=True)
class Numbering:
    """Values of one module.

    Attributes:
        bodies: For each region that stands for itself (entry, loop bodies, branches, reducers)
            its instructions and those of the fusions and calls in it, callees before callers.
        functions: What each of those regions computes from its parameters.
    """

    bodies: Mapping[str, tuple[Occurrence, ...]]
    functions: Mapping[str, int]


@dataclass(slots=True)
class _Frame:
    """A region being numbered: its values so far and the call that it belongs to."""

    region: Region
    values: dict[str, int]
    left: Iterator[Node]
    call: Node | None = None


def number(module: Module, numbers: Numbers) -> Numbering:
    """Numbers every instruction of an HLO module, in time linear in its size.

    Args:
        module: Read HLO.
        numbers: The table to use; share it between modules that are to be compared.
    """
    bodies: dict[str, tuple[Occurrence, ...]] = {}
    functions: dict[str, int] = {}
    size = sum(len(region.nodes) for region in module.regions.values())
    budget = [_EXPANSION * size + 1000]
    for region in reversed(tuple(_standing(module))):
        parameters = tuple(
            _parameter(numbers, index, value.type) for index, value in enumerate(region.parameters)
        )
        found: list[Occurrence] = []
        functions[region.name] = _walk(
            module, region, parameters, numbers, functions, found, budget
        )
        bodies[region.name] = tuple(found)
    return Numbering(bodies, functions)


def _parameter(numbers: Numbers, index: int, type_: Type) -> int:
    """The number of a parameter; a tuple's is made of its parts: a loop may get more of them."""
    if type_.dtype or not type_.parts:
        return numbers.of(("parameter", index, plain(type_)))
    return numbers.tuple_of(
        tuple(
            numbers.of(("parameter", index, place, plain(part)))
            for place, part in enumerate(type_.parts)
        )
    )


def _standing(module: Module) -> Iterator[Region]:
    """Regions that are not merely the inside of a fusion or call, callers before callees."""
    named = {
        name for node in module.nodes() if node.opcode not in _INLINED for name in node.regions
    }
    for name, region in module.regions.items():
        if name == module.entry or name in named:
            yield region


def _walk(
    module: Module,
    region: Region,
    parameters: tuple[int, ...],
    numbers: Numbers,
    functions: Mapping[str, int],
    found: list[Occurrence],
    budget: list[int],
) -> int:
    """Numbers one region with what it inlines; returns the number of its root."""
    stack = [_frame(region, parameters)]
    while True:
        frame = stack[-1]
        node = next(frame.left, None)
        if node is None:
            stack.pop()
            root = _root(frame, numbers)
            if frame.call is None:
                return root
            stack[-1].values[frame.call.results[0].name] = root
            found.append(Occurrence(frame.call.id, root))
            continue
        inner = module.regions.get(node.regions[0]) if _opens(node, budget) else None
        if inner is not None:
            operands = tuple(_operand(frame, name, numbers) for name in node.operands)
            budget[0] -= len(inner.nodes)
            stack.append(_frame(inner, operands, node))
            continue
        value = _value(frame, node, numbers, functions)
        for result in node.results:
            frame.values[result.name] = value
        if node.opcode != "parameter" or frame.call is None:  # a fusion's own are only names
            found.append(Occurrence(node.id, value))


def _frame(region: Region, parameters: tuple[int, ...], call: Node | None = None) -> _Frame:
    names = [value.name for value in region.parameters]
    return _Frame(region, dict(zip(names, parameters, strict=False)), iter(region.nodes), call)


def _opens(node: Node, budget: list[int]) -> bool:
    if node.opcode not in _INLINED or len(node.regions) != 1:
        return False
    return node.opcode == "fusion" or budget[0] > 0


def _root(frame: _Frame, numbers: Numbers) -> int:
    results = [_operand(frame, name, numbers) for name in frame.region.results]
    return results[0] if len(results) == 1 else numbers.tuple_of(tuple(results))


def _operand(frame: _Frame, name: str, numbers: Numbers) -> int:
    value = frame.values.get(name)
    return numbers.of(("literal", name)) if value is None else value


def _value(frame: _Frame, node: Node, numbers: Numbers, functions: Mapping[str, int]) -> int:
    """The number of an instruction that is not looked through."""
    if node.opcode == "parameter":
        known = frame.values.get(node.results[0].name)
        return numbers.of(("parameter", node.id)) if known is None else known
    operands = [_operand(frame, name, numbers) for name in node.operands]
    if node.opcode in _TRANSPARENT and operands:
        return operands[0]
    if node.opcode == "tuple":
        return numbers.tuple_of(tuple(operands))
    if node.opcode == "get-tuple-element" and operands:
        return numbers.part(operands[0], node.attrs.get("index", ""))
    if node.opcode in _COMMUTATIVE:
        operands.sort()
    called = tuple(functions.get(name, name) for name in node.regions)
    unique = node.id if node.opcode in _IMPURE or _elided(node) else ""
    opcode, type_ = _kind(node)
    return numbers.of((opcode, type_, _meaning(node), called, unique, *operands))


def _elided(node: Node) -> bool:
    """Whether XLA left out the digits of a constant: two such need not be equal."""
    return node.opcode == "constant" and "..." in node.attrs.get("literal", "")


def _kind(node: Node) -> tuple[str, str]:
    """Opcode and type; a bitcast of row-major values is the reshape that it was before layouts."""
    if node.opcode == "bitcast":
        text = node.type.layout
        return (
            ("reshape", plain(node.type)) if row_major(text) else ("bitcast", f"{node.type}{text}")
        )
    return node.opcode, plain(node.type)


def _meaning(node: Node) -> tuple[tuple[str, str], ...]:
    """The attributes that change what is computed.

    XLA prints them between the operands and the metadata, and few texts of them differ: where
    a line is plain, its other attributes are not read.
    """
    start = node.text.find(f" {node.opcode}(")
    end = node.text.find(", metadata={", start)
    said = node.text[start : end if end >= 0 else None]
    operands, closed, attributes = said.partition(")")
    if start >= 0 and closed and node.operands and '"' not in said and "{" not in operands:
        return _kept(attributes)
    kept = [(name, text) for name, text in node.attrs.items() if name not in _SILENT]
    if node.opcode == "custom-call":
        kept.append(("backend_config", node.attrs.get("backend_config", "")))
    return tuple(kept)


@lru_cache(maxsize=4096)
def _kept(text: str) -> tuple[tuple[str, str], ...]:
    found = hlo_text.attributes(text.strip().removeprefix(","))
    return tuple((name, value) for name, value in found.items() if name not in _SILENT)


def plain(type_: Type) -> str:
    """A type in text, layouts left out."""
    return str(type_)


def row_major(layout: str) -> bool:
    """Whether a layout text ("{1,0}") is the default order; an empty one is."""
    digits = layout.strip("{}").split(":")[0]
    order = [int(d) for d in digits.split(",") if d.strip().isdigit()]
    return order == sorted(order, reverse=True)
