"""How a sharding came to an op: the steps of Shardy's propagation, as Shardy records them.

XLA prints the shardings that its partitioner chose, and not why. Shardy, which chooses them, can
write its steps beside the ops; XLA does not ask for it. So the same passes run here once more on
the program's StableHLO, with the options that do. They are those of this jaxlib: its pipeline says
of which passes it consists, up to the propagation. What XLA did with the program before is not in
it; whoever shows a step compares with the shardings that XLA's partitioner was given.

Source of the passes: Shardy, `sdy-propagation-pipeline` and its options `debug-sharding-origins`
and `debug-propagation-edge-sharding`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxlens.ir.hlo.shardings import spec_text
from jaxlens.ir.stablehlo.reader import parse
from jaxlens.ir.stablehlo.stamps import restamp
from jaxlens.ir.stamps import stamps

_PROPAGATE = "sdy-user-priority-propagate"
_OPTIONS = ("debug-propagation-edge-sharding", "debug-sharding-origins")
_EDGE = re.compile(
    r'step-(?P<step>\d+)|"(?P<axis>[^"]+)"(?::\(\d+\)\d+)? = (?P<source>\w+-\d+) -> '
    r"\[(?P<targets>[^\]]*)\]"
)
Kind = Literal["input", "output", "constraint", ""]


@dataclass(frozen=True, slots=True)
class Way:
    """How a mesh axis came to cut a dimension of a value.

    Attributes:
        axis: The mesh axis.
        dimension: The dimension of the value that it cuts, from 0.
        kind: What asked for it: an "input" or "output" of the program, a "constraint" in it, or ""
            if Shardy's record does not lead there.
        source: The number of the input or output, or the constraint's op; "" likewise.
        ops: The ops that the sharding was passed on by, from the source on.
    """

    axis: str
    dimension: int
    kind: Kind
    source: str
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """One value took an axis of another."""

    number: int
    op: str
    source: Any


@dataclass(frozen=True, slots=True)
class Propagation:
    """The shardings of a StableHLO module after Shardy's propagation, by the ids of its ops.

    Attributes:
        operands: How each value that an op reads is cut.
        results: How each value that it makes is cut.
        specs: The PartitionSpec of an op's one result; "" where it has none, or several.
    """

    operands: Mapping[str, tuple[tuple[Way, ...], ...]]
    results: Mapping[str, tuple[tuple[Way, ...], ...]]
    specs: Mapping[str, str]


def propagation(text: str) -> Propagation:
    """Runs Shardy's propagation on a program, which may end the process, and returns its steps.

    Args:
        text: StableHLO of several devices, as it was lowered.
    """
    module = parse(text)
    restamp(module, {})
    with module.context:
        passes = _passes()
        passes.enable_verifier(False)  # edges of loops fail its check, not the propagation
        passes.run(module.operation)
        read = _read(module)
    operands, results = (
        {op: tuple(map(read.ways, found)) for op, found in values.items()}
        for values in (read.operands, read.results)
    )
    return Propagation(operands, results, {op: read.spec(op) for op in read.results})


@dataclass(eq=False)
class _Values:
    """The values of a module after propagation, and the steps that cut them.

    Attributes:
        operands: The values that each op reads, by the op's id.
        results: The values that it makes.
    """

    operands: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    results: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _cuts: dict[Any, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    _same: dict[Any, Any] = field(default_factory=dict)  # what stands for a value in a loop
    _steps: dict[tuple[Any, str], _Step] = field(default_factory=dict)
    _asked: dict[tuple[Any, str], tuple[Kind, str]] = field(default_factory=dict)

    def ways(self, value: Any) -> tuple[Way, ...]:
        """Returns how each mesh axis that cuts a value came to it."""
        cut = self._cuts.get(self._one(value), ())
        return tuple(
            self._way(value, axis, dimension) for dimension, axes in enumerate(cut) for axis in axes
        )

    def spec(self, op: str) -> str:
        """Returns the PartitionSpec of an op's one result; "" where it has none, or several."""
        results = self.results.get(op, ())
        return spec_text(self._cuts.get(self._one(results[0]))) if len(results) == 1 else ""

    def _way(self, value: Any, axis: str, dimension: int) -> Way:
        ops: list[str] = []
        here, least = self._one(value), float("inf")
        while (asked := self._asked.get((here, axis))) is None:
            step = self._steps.get((here, axis))
            if step is None or step.number >= least:
                return Way(axis, dimension, "", "", tuple(reversed(ops)))
            least = step.number
            ops += [step.op] * bool(step.op and step.op not in ops[-1:])
            here = self._one(step.source)
        return Way(axis, dimension, *asked, tuple(reversed(ops)))

    def _one(self, value: Any) -> Any:
        while value in self._same:
            value = self._same[value]
        return value


def _passes() -> Any:
    """Returns the passes of this jaxlib's propagation, asked to record their steps."""
    from jaxlib.mlir.passmanager import PassManager

    text = str(PassManager.parse("builtin.module(sdy-propagation-pipeline)"))
    text = text.replace("sdy-save-module,", "")  # writes files, and is not registered
    for option in _OPTIONS:
        text = text.replace(f"{option}=false", f"{option}=true")
    return PassManager.parse(text[: text.index("}", text.index(_PROPAGATE)) + 1] + ")")


def _read(module: Any) -> _Values:
    from jaxlib.mlir.dialects import sdy

    found = _Values()
    for view in module.body.operations:
        function = view.operation
        if function.name == "func.func" and len(function.regions[0].blocks):
            _Reader(found, sdy).function(function)
    return found


class _Reader:
    """Reads the functions of a module after propagation."""

    def __init__(self, found: _Values, sdy: Any) -> None:
        self._found, self._sdy = found, sdy

    def function(self, function: Any) -> None:
        """Reads a function; what `main` is given and returns is what the user asked for."""
        block = function.regions[0].blocks[0]
        attributes = function.attributes
        given = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
        for number, (value, attrs) in enumerate(zip(block.arguments, given, strict=False)):
            if "sdy.sharding" in attrs:
                self._cut(value, attrs["sdy.sharding"])
                self._ask(value, attrs, "input", str(number))
        self._block(block)
        *_, closing = block.operations
        returned = list(closing.operation.operands)
        wanted = list(attributes["res_attrs"]) if "res_attrs" in attributes else []
        for number, (value, attrs) in enumerate(zip(returned, wanted, strict=False)):
            key = "output", number
            self._ask(key, attrs, "output", str(number))
            self._edges(attrs, "", [value], [key])

    def _ask(self, value: Any, attrs: Any, kind: Kind, source: str) -> None:
        """Notes the axes whose origin is the value itself."""
        for axis in _own_axes(attrs):
            self._found._asked[value, axis] = kind, source

    def _block(self, block: Any) -> None:
        for view in block.operations:
            op = view.operation
            id = next((path[-1] for path in stamps(_name(op)) if path), "")
            if op.name == "sdy.data_flow_edge":
                self._edge(op, id)
                continue
            operands, results = list(op.operands), list(op.results)
            if id:
                self._found.operands[id] = tuple(operands)
                self._found.results[id] = tuple(results)
            attributes = op.attributes
            if op.name == "sdy.sharding_constraint":
                self._cut(results[0], attributes["sharding"])
                self._ask(results[0], attributes, "constraint", id)
            elif "sdy.sharding" in attributes:
                each = self._sdy.TensorShardingPerValueAttr(attributes["sdy.sharding"]).shardings
                for value, sharding in zip(results, each, strict=False):
                    self._cut(value, sharding)
            self._edges(attributes, id, operands, results)
            self._inside(op, operands, results)

    def _inside(self, op: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Reads the blocks of an op. A loop's variable is its result; a call's is its operand."""
        for region in op.regions:
            for block in region.blocks:
                outer = results if op.name == "stablehlo.while" else operands
                if op.name in ("stablehlo.while", "sdy.named_computation"):
                    self._found._same.update(zip(block.arguments, outer, strict=False))
                self._block(block)
                if op.name == "sdy.named_computation":
                    *_, closing = block.operations
                    inner = closing.operation.operands
                    self._found._same.update(zip(results, inner, strict=False))

    def _edge(self, op: Any, id: str) -> None:
        """Reads what flows into a result or a variable of a loop, from before it and from its end.

        The value and its edge are one.
        """
        (owner,), (value,) = list(op.operands), list(op.results)
        if "sharding" in op.attributes:
            self._cut(owner, op.attributes["sharding"])
        sources = [owner]
        maker = getattr(owner, "owner", None)
        loop: Any = getattr(maker, "operation", maker)
        if getattr(loop, "name", "") == "stablehlo.while":
            number = list(loop.results).index(owner)
            *_, closing = loop.regions[1].blocks[0].operations
            sources = [loop.operands[number], closing.operation.operands[number]]
        self._edges(op.attributes, id, sources, [owner])
        self._found._same[value] = owner

    def _cut(self, value: Any, sharding: Any) -> None:
        sdy = self._sdy
        dimensions = map(
            sdy.DimensionShardingAttr, sdy.TensorShardingAttr(sharding).dimension_shardings
        )
        axes = tuple(tuple(sdy.AxisRefAttr(axis).name for axis in one.axes) for one in dimensions)
        self._found._cuts[self._found._one(value)] = axes

    def _edges(
        self, attributes: Any, id: str, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Notes which value took an axis of which, the first step of each."""
        if "sdy.propagation_edges" not in attributes:
            return
        one, steps = self._found._one, self._found._steps
        for number, axis, source, targets in _steps(str(attributes["sdy.propagation_edges"])):
            for target in targets:
                start, end = (_refers(word, operands, results) for word in (source, target))
                if start is None or end is None or one(start) == one(end):
                    continue
                key = one(end), axis
                if key not in steps or number < steps[key].number:
                    steps[key] = _Step(number, id, one(start))


def _steps(text: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yields the step, axis, source and targets of each edge."""
    number = 0
    for match in _EDGE.finditer(text):
        if match["step"]:
            number = int(match["step"])
        else:
            yield number, match["axis"], match["source"], match["targets"].split(", ")


def _refers(word: str, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    kind, _, number = word.partition("-")
    values = operands if kind == "operand" else results
    return values[int(number)] if int(number) < len(values) else None


def _own_axes(attributes: Any) -> list[str]:
    if "sdy.sharding_origins" not in attributes:
        return []
    origins = attributes["sdy.sharding_origins"]
    return [named.name for named in origins if str(named.attr).strip('"') == "self"]


def _name(op: Any) -> str:
    return getattr(op.location, "name_str", "") or ""


if __name__ == "__main__":
    from jaxlens.questions.sharding import propagation as module  # classes that the parent knows
    from jaxlens.stages.child.main import serve

    serve(lambda request: {"found": module.propagation(request["text"])})
