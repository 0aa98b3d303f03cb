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
from dataclasses import dataclass
from typing import Any

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
_LOOP, _CALL = "stablehlo.while", "sdy.named_computation"


@dataclass(frozen=True, slots=True)
class AxisCut:
    """A value of an op that a mesh axis cuts.

    Attributes:
        value: "operand 0", "result", or "result 1" of several.
        axis: The mesh axis.
        dimension: The dimension that it cuts, from 0.
        kind: What asked for it: an "input" or "output" of the program, a "constraint" in it, or ""
            if Shardy's record does not lead there.
        source: The name of the input or output, or the line of the constraint; "" if not known.
        asker: The number of the input or output in the StableHLO, or the constraint's id there; ""
            likewise.
        ops: The ops that passed it on from there, by id in the StableHLO.
        lines: The source lines of the ops, each once.
    """

    value: str
    axis: str
    dimension: int
    kind: str
    source: str
    asker: str
    ops: tuple[str, ...]
    lines: tuple[str, ...] = ()

    @property
    def asks(self) -> str:
        """What asked for it, in words; "" where it is not known."""
        if self.kind == "constraint":
            return f"the constraint at {self.source}" if self.source else "a constraint"
        return f"{self.kind} {self.source}" if self.kind else ""


@dataclass(frozen=True, slots=True)
class Propagation:
    """The shardings of a StableHLO module after Shardy's propagation, by the ids of its ops.

    Attributes:
        cuts: How the values that an op reads and makes are cut, without names and lines.
        specs: The PartitionSpec of an op's result, where it has one.
    """

    cuts: Mapping[str, tuple[AxisCut, ...]]
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
        return _Reader(module).propagation()


def _passes() -> Any:
    """Returns the passes of this jaxlib's propagation, asked to record their steps."""
    from jaxlib.mlir.passmanager import PassManager

    text = str(PassManager.parse("builtin.module(sdy-propagation-pipeline)"))
    text = text.replace("sdy-save-module,", "")  # writes files, and is not registered
    for option in _OPTIONS:
        text = text.replace(f"{option}=false", f"{option}=true")
    return PassManager.parse(text[: text.index("}", text.index(_PROPAGATE)) + 1] + ")")


class _Reader:
    """Reads the values of a module after propagation, and the steps that cut them."""

    def __init__(self, module: Any) -> None:
        from jaxlib.mlir.dialects import sdy

        self._sdy = sdy
        self._values: dict[str, dict[str, Any]] = {}  # by op, and by what they are called
        self._axes: dict[Any, tuple[tuple[str, ...], ...]] = {}  # that cut each dimension
        self._same: dict[Any, Any] = {}  # what stands for a value in a loop
        # By value and axis: the number of the step, its op, and the value that had the axis.
        self._steps: dict[tuple[Any, str], tuple[int, str, Any]] = {}
        self._asked: dict[tuple[Any, str], tuple[str, str]] = {}  # kind and asker
        for view in module.body.operations:
            function = view.operation
            if function.name == "func.func" and len(function.regions[0].blocks):
                self._function(function)

    def propagation(self) -> Propagation:
        """Returns how each mesh axis that cuts a value came to it."""
        cuts = {
            op: tuple(
                self._cut(name, value, axis, dimension)
                for name, value in values.items()
                for dimension, axes in enumerate(self._axes.get(self._one(value), ()))
                for axis in axes
            )
            for op, values in self._values.items()
        }
        specs = {
            op: spec_text(self._axes.get(self._one(values["result"])))
            for op, values in self._values.items()
            if "result" in values
        }
        return Propagation(cuts, specs)

    def _cut(self, name: str, value: Any, axis: str, dimension: int) -> AxisCut:
        """Follows the steps back, each before the last, to what asked for the cut."""
        here, before, ops = self._one(value), float("inf"), list[str]()
        while (here, axis) not in self._asked:
            number, op, source = self._steps.get((here, axis), (before, "", None))
            if number >= before:
                break
            before, here = number, self._one(source)
            ops += [op] * bool(op and op not in ops[-1:])
        kind, asker = self._asked.get((here, axis), ("", ""))
        return AxisCut(name, axis, dimension, kind, "", asker, tuple(reversed(ops)))

    def _one(self, value: Any) -> Any:
        while value in self._same:
            value = self._same[value]
        return value

    def _function(self, function: Any) -> None:
        """Reads a function; what `main` is given and returns is what the user asked for."""
        block, attributes = function.regions[0].blocks[0], function.attributes
        given, wanted = (attributes.get(name) or () for name in ("arg_attrs", "res_attrs"))
        for number, (value, attrs) in enumerate(zip(block.arguments, given, strict=False)):
            if "sdy.sharding" in attrs:
                self._sharded(value, attrs["sdy.sharding"])
                self._ask(value, attrs, "input", str(number))
        self._block(block)
        for number, (value, attrs) in enumerate(zip(_returned(block), wanted, strict=False)):
            key = "output", number
            self._ask(key, attrs, "output", str(number))
            self._edges(attrs, "", [value], [key])

    def _ask(self, value: Any, attributes: Any, kind: str, asker: str) -> None:
        """Notes the axes whose origin is the value itself."""
        if "sdy.sharding_origins" not in attributes:
            return
        for origin in attributes["sdy.sharding_origins"]:
            if str(origin.attr).strip('"') == "self":
                self._asked[value, origin.name] = kind, asker

    def _block(self, block: Any) -> None:
        for view in block.operations:
            op = view.operation
            paths = stamps(getattr(op.location, "name_str", "") or "")
            id = next((path[-1] for path in paths if path), "")
            if op.name == "sdy.data_flow_edge":
                self._edge(op, id)
                continue
            operands, results, attributes = list(op.operands), list(op.results), op.attributes
            if id:
                names = [f"operand {n}" for n in range(len(operands))]
                names += [f"result {n}" for n in range(len(results))] if results[1:] else ["result"]
                self._values[id] = dict(zip(names, (*operands, *results), strict=False))
            if op.name == "sdy.sharding_constraint":
                self._sharded(results[0], attributes["sharding"])
                self._ask(results[0], attributes, "constraint", id)
            elif "sdy.sharding" in attributes:
                each = self._sdy.TensorShardingPerValueAttr(attributes["sdy.sharding"]).shardings
                for value, sharding in zip(results, each, strict=False):
                    self._sharded(value, sharding)
            self._edges(attributes, id, operands, results)
            # A loop's variable is its result; a call's is its operand.
            outer = {_LOOP: results, _CALL: operands}.get(op.name, ())
            for inner in (block for region in op.regions for block in region.blocks):
                self._same.update(zip(inner.arguments, outer, strict=False))
                self._block(inner)
                if op.name == _CALL:
                    self._same.update(zip(results, _returned(inner), strict=False))

    def _edge(self, op: Any, id: str) -> None:
        """Reads what flows into a result or a variable of a loop, from before it and from its end.

        The value and its edge are one.
        """
        (owner,), (value,) = op.operands, op.results
        if "sharding" in op.attributes:
            self._sharded(owner, op.attributes["sharding"])
        sources = [owner]
        maker = getattr(owner, "owner", None)
        loop: Any = getattr(maker, "operation", maker)
        if getattr(loop, "name", "") == _LOOP:
            number = list(loop.results).index(owner)
            sources = [loop.operands[number], _returned(loop.regions[1].blocks[0])[number]]
        self._edges(op.attributes, id, sources, [owner])
        self._same[value] = owner

    def _sharded(self, value: Any, sharding: Any) -> None:
        sdy = self._sdy
        each = map(sdy.DimensionShardingAttr, sdy.TensorShardingAttr(sharding).dimension_shardings)
        axes = tuple(tuple(sdy.AxisRefAttr(axis).name for axis in one.axes) for one in each)
        self._axes[self._one(value)] = axes

    def _edges(
        self, attributes: Any, id: str, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Notes which value took an axis of which, the first step of each."""
        if "sdy.propagation_edges" not in attributes:
            return
        values = {f"operand-{n}": self._one(value) for n, value in enumerate(operands)}
        values |= {f"result-{n}": self._one(value) for n, value in enumerate(results)}
        for number, axis, *ends in _edges(str(attributes["sdy.propagation_edges"])):
            start, end = map(values.get, ends)
            if start is None or end is None or start == end:
                continue
            if (end, axis) not in self._steps or number < self._steps[end, axis][0]:
                self._steps[end, axis] = number, id, start


def _edges(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yields the step, axis, source and target of each edge."""
    number = 0
    for match in _EDGE.finditer(text):
        if match["step"]:
            number = int(match["step"])
        else:
            for target in match["targets"].split(", "):
                yield number, match["axis"], match["source"], target


def _returned(block: Any) -> list[Any]:
    *_, closing = block.operations
    return list(closing.operation.operands)


if __name__ == "__main__":
    from jaxlens.questions.sharding import propagation as module  # classes that the parent knows
    from jaxlens.stages.child.main import serve

    serve(lambda request: {"found": module.propagation(request["text"])})
