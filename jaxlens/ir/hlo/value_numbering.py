"""Global value numbering: HLO instructions that compute the same value have the same number.

A number stands for an expression: opcode, type without layout, attributes that change the
meaning, called computations and the numbers of the operands. Fusions and calls are inlined, so an
instruction keeps its number when it is fused, and each copy that fusion makes of it has that number
too. Numbers are interned in a `Numbers` table and not hashed, so that equal numbers always are
equal expressions.

    a = add(x, y)                      number of ("add f32[4]", x, y)
    f = fusion(x, y), calls=g          g's parameters have the numbers of x and y,
      g: s = add(p1, p0)               so s, with sorted operands, has the number of a, and so has f

Inside the body of a loop, a branch or a reducer, numbers are relative to that body's
parameters, so `links/match` pairs bodies before it compares numbers in them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.hlo import text as hlo_text
from jaxlens.ir.hlo.async_fusions import DONE, START, target
from jaxlens.ir.hlo.lazy_module import Instruction

# Opcodes whose computation is inlined.
_INLINED = frozenset({"fusion", "call"})
# Attributes that do not affect the value: its origin, how it is executed, and the computations that
# it calls, which are compared by their numbers.
_SILENT = frozenset(
    "metadata backend_config calls to_apply condition body select scatter branch_computations "
    "true_computation false_computation called_computations sharding frontend_attributes "
    "control-predecessors channel_id origin kind operand_precision statistics "
    "output_to_operand_aliasing async_execution_thread execution_thread schedule original_value "
    "stack_frame_id".split()
)
_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
# Opcodes whose value is their first operand.
_TRANSPARENT = frozenset({"copy", "opt-barrier", "copy-start", "copy-done"})
_PASSING = _TRANSPARENT | {"get-tuple-element"}
# Equal attributes and operands do not give equal values.
_IMPURE = frozenset("rng rng-get-and-update-state infeed outfeed send recv after-all".split())
_UNIQUE = _IMPURE | {"constant"}
# Those that XLA combines: of several operands, each result is that of one.
_COMBINED = frozenset("all-reduce reduce-scatter all-gather collective-permute".split())
_EXPANSION = 20  # inlining may enlarge a program this many times; further calls are not inlined

Key = tuple[object, ...]
Occurrence = tuple[Node, int]
"""An instruction, inlined at one place, and its number there."""


@dataclass(slots=True)
class Numbers:
    """The table of expressions, which modules must share to be compared."""

    _numbers: dict[Key, int] = field(default_factory=dict)
    _parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _kinds: dict[Key, int] = field(default_factory=dict)
    _printed: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def of(self, key: Key) -> int:
        """The number of an expression."""
        return self._numbers.setdefault(key, len(self._numbers))

    def tuple_of(self, parts: tuple[int, ...]) -> int:
        """The number of a tuple; `part` gives those of its elements."""
        number = self.of(("tuple", *parts))
        self._parts[number] = parts
        return number

    def part(self, number: int, index: str) -> int:
        """The number of one element of a tuple."""
        parts = self._parts.get(number)
        if parts is not None and index.isdigit() and int(index) < len(parts):
            return parts[int(index)]
        return self.of(("get-tuple-element", index, number))

    def kind(self, node: Node, part: Type | None = None) -> int:
        """The number of an instruction's operation, without its operands.

        Few texts of a program's instructions differ apart from names and metadata, so each is
        parsed once.

        Args:
            node: The instruction.
            part: The type of one result, of a collective of several.
        """
        if part is not None:
            return self._kinds.setdefault(
                (node.opcode, str(part), _meaning(node)), len(self._kinds)
            )
        if not isinstance(node, Instruction) or not node.operands or node.said is None:
            return self._kind(node)
        key = node.opcode, node.shape, node.said
        kind = self._printed.get(key)
        if kind is None:
            kind = self._printed[key] = self._kind(node)
        return kind

    def _kind(self, node: Node) -> int:
        return self._kinds.setdefault((*_kind(node), _meaning(node)), len(self._kinds))


@dataclass(slots=True)
class _Frame:
    """A region being numbered: its values so far, and the call into which it is inlined."""

    region: Region
    values: dict[str, int]
    left: Iterator[Node]
    call: Node | None = None


def number(module: Module, numbers: Numbers) -> dict[str, list[Occurrence]]:
    """Numbers every instruction of an HLO module, in time linear in its size.

    Nested calls could double the program at every level: beyond a budget each is one
    instruction, like a loop. Fusions are always inlined.

    Returns:
        For each region that is not only inlined (entry, loop bodies, branches, reducers), its
        instructions and those inlined into it, callees before callers.
    """
    bodies: dict[str, list[Occurrence]] = {}
    walk = _Walk(module, numbers)
    called = {
        name for node in module.nodes() if node.opcode not in _INLINED for name in node.regions
    }
    for name, region in reversed(tuple(module.regions.items())):
        if name == module.entry or name in called:
            bodies[name] = walk.occurrences = []
            walk.functions[name] = walk.function(region)
    return bodies


def functions(module: Module) -> dict[str, int]:
    """Numbers what each region but the entry computes of its parameters."""
    walk = _Walk(module, Numbers())
    for name, region in reversed(tuple(module.regions.items())):
        if name != module.entry:
            walk.functions[name] = walk.function(region)
    return walk.functions


def _parameter(numbers: Numbers, index: int, type_: Type) -> int:
    """The number of a parameter. A tuple's is made of its elements', since a loop may gain some."""
    if type_.dtype or not type_.parts:
        return numbers.of(("parameter", index, str(type_)))
    keys = (("parameter", index, place, str(part)) for place, part in enumerate(type_.parts))
    return numbers.tuple_of(tuple(map(numbers.of, keys)))


class _Walk:
    """Numbers regions, each with what is inlined into it.

    Attributes:
        functions: Numbers of the results of regions that are done, in terms of their parameters.
        budget: How many more instructions calls may inline.
        occurrences: The instructions of the region and their numbers.
    """

    def __init__(self, module: Module, numbers: Numbers) -> None:
        self.module = module
        self.numbers = numbers
        self.functions: dict[str, int] = {}
        self.budget = _EXPANSION * module.size + 1000
        self.occurrences: list[Occurrence] = []

    def function(self, region: Region) -> int:
        """The number of the region's root, in terms of its parameters."""
        parameters = enumerate(region.parameters)
        values = (_parameter(self.numbers, index, value.type) for index, value in parameters)
        return self.through(region, tuple(values))

    def through(self, region: Region, parameters: tuple[int, ...]) -> int:
        """The number of the region's root."""
        stack = [_frame(region, parameters)]
        while True:
            frame = stack[-1]
            call = self._to_call(frame)
            if call is not None:
                inner = self.module.regions[call.regions[0]]
                self.budget -= len(inner.nodes)
                stack.append(_frame(inner, tuple(self._operands(frame, call.operands)), call))
                continue
            stack.pop()
            results = self._operands(frame, frame.region.results)
            root = results[0] if len(results) == 1 else self.numbers.tuple_of(tuple(results))
            if frame.call is None:
                return root
            stack[-1].values[frame.call.id] = root
            self.occurrences.append((frame.call, root))

    def _to_call(self, frame: _Frame) -> Node | None:
        """Numbers up to the next instruction to be inlined; None at the end."""
        values, inside = frame.values, frame.call is not None
        for node in frame.left:
            opcode = node.opcode
            if (
                opcode in _INLINED
                and (opcode == "fusion" or self.budget > 0)
                and len(node.regions) == 1
                and node.regions[0] in self.module.regions
            ):
                return node
            if opcode == "parameter":
                value = values.get(node.id)
                if value is None:
                    value = self.numbers.of(("parameter", node.id))
                values[node.id] = value
                if inside:  # an inlined parameter is no instruction
                    continue
            else:
                value = values[node.id] = self._value(frame, node, opcode)
            self.occurrences.append((node, value))
        return None

    def _operands(self, frame: _Frame, names: Sequence[str]) -> list[int]:
        values = frame.values
        return [
            values[name] if name in values else self.numbers.of(("literal", name)) for name in names
        ]

    def _value(self, frame: _Frame, node: Node, opcode: str) -> int:
        """The number of an instruction that is not inlined."""
        operands = self._operands(frame, node.operands)
        if opcode in _PASSING and operands:
            if opcode == "get-tuple-element":
                return self.numbers.part(operands[0], dict(_meaning(node)).get("index", ""))
            return operands[0]
        if opcode == "tuple":
            return self.numbers.tuple_of(tuple(operands))
        if opcode in _COMMUTATIVE:
            operands.sort()
        if opcode == "custom-call":
            value = self._asynchronous(frame, node, operands)
            if value is not None:
                return value
        called = tuple([self.functions.get(name, name) for name in node.regions])
        if opcode in _COMBINED and len(operands) == len(node.type.parts) > 1:
            pairs = zip(node.type.parts, operands, strict=True)
            parts = [
                self.numbers.of((self.numbers.kind(node, part), called, "", operand))
                for part, operand in pairs
            ]
            self.occurrences += [(node, part) for part in parts]
            return self.numbers.tuple_of(tuple(parts))
        kind = self.numbers.kind(node)
        if node.regions or opcode in _UNIQUE:
            unique = node.id if opcode in _IMPURE or _elided(node) else ""
            return self.numbers.of((kind, called, unique, *operands))
        return self.numbers.of((kind, *operands))

    def _asynchronous(self, frame: _Frame, node: Node, operands: list[int]) -> int | None:
        """The number of either end of a collective that is in several fusions; else None.

        Each fusion has the collective (`async_fusions.py`): its number tells what belongs together.
        """
        end = target(node)
        if end == DONE and len(operands) > 2:
            return operands[2]
        if end != START or len(node.operands) != 1:
            return None
        sent = next((n for n in frame.region.nodes if n.id == node.operands[0]), node)
        parts = *self._operands(frame, sent.operands), operands[0]
        rest = (self.numbers.of((node.id, index)) for index in range(2, len(node.type.parts)))
        return self.numbers.tuple_of((*parts, *rest)) if len(parts) == 2 else None


def _frame(region: Region, parameters: tuple[int, ...], call: Node | None = None) -> _Frame:
    names = [value.name for value in region.parameters]
    return _Frame(region, dict(zip(names, parameters, strict=False)), iter(region.nodes), call)


def _elided(node: Node) -> bool:
    """Whether XLA omitted the digits of a constant: two such constants may differ."""
    return node.opcode == "constant" and "..." in node.attrs.get("literal", "")


def _kind(node: Node) -> tuple[str, str]:
    """Opcode and type; a bitcast of row-major values is the reshape that it replaced."""
    if node.opcode == "bitcast":
        digits = node.type.layout.strip("{}").split(":")[0]
        order = [int(d) for d in digits.split(",") if d.strip().isdigit()]
        if order != sorted(order, reverse=True):
            return "bitcast", f"{node.type}{node.type.layout}"
        return "reshape", str(node.type)
    return node.opcode, str(node.type)


def _meaning(node: Node) -> tuple[tuple[str, str], ...]:
    """The attributes that affect the value.

    XLA prints them between the operands and the metadata: of a plain line no others are parsed.
    """
    if node.operands and isinstance(node, Instruction) and node.said is not None:
        return _affecting(node.said)
    affecting = [(name, text) for name, text in node.attrs.items() if name not in _SILENT]
    if node.opcode == "custom-call":
        affecting.append(("backend_config", node.attrs.get("backend_config", "")))
    return tuple(affecting)


@lru_cache(maxsize=4096)
def _affecting(text: str) -> tuple[tuple[str, str], ...]:
    values = hlo_text.attributes(text.strip().removeprefix(","))
    return tuple((name, value) for name, value in values.items() if name not in _SILENT)
