"""Why a collective is there: how its op's values are cut, and what asked for each cut."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node
from jaxlens.questions.sharding.propagation import Propagation, Way


@dataclass(frozen=True, slots=True)
class AxisCut:
    """A value of an op that a mesh axis cuts.

    Attributes:
        value: "operand 0", "result", or "result 1" of several.
        axis: The mesh axis.
        dimension: The dimension that it cuts, from 0.
        kind: What asked for it: "input", "output", "constraint", or "" where that is not known.
        source: The name of the input or output, or the line of the constraint; "" likewise.
        asker: The number of the input or output in the StableHLO, or the constraint's id there.
        ops: The ops that passed it on from there, by id in the StableHLO.
        lines: Their source lines, each once.
    """

    value: str
    axis: str
    dimension: int
    kind: str
    source: str
    asker: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def asks(self) -> str:
        """What asked for it, in words; "" where it is not known."""
        if self.kind == "constraint":
            return f"the constraint at {self.source}" if self.source else "a constraint"
        return f"{self.kind} {self.source}" if self.kind else ""


@dataclass(frozen=True, slots=True)
class TrafficReason:
    """The op that a collective is of, with its values that the collective's axes cut.

    Attributes:
        collective: Id of the collective in the optimised program.
        op: Id of the op in the StableHLO.
        opcode: Its opcode, without the dialect.
        line: Its source line; "" for none.
        cuts: Its operands' cuts, then its results'.
    """

    collective: str
    op: str
    opcode: str
    line: str
    cuts: tuple[AxisCut, ...]


def reasons(
    capture: Capture,
    shardings: Propagation,
    over: Mapping[str, Sequence[str]],
    chosen: Mapping[str, str],
    mesh: frozenset[str],
) -> tuple[TrafficReason, ...]:
    """Returns the reasons of those collectives whose op, and whose op's shardings, are known.

    Args:
        capture: The program.
        shardings: Those of its StableHLO, with how they came about.
        over: The mesh axes of each collective, by its id.
        chosen: The PartitionSpec that XLA's partitioner was given for the result of an op, by the
            op's id; an op whose spec is another here is left out.
        mesh: The axes of the program's first mesh, which `over` and `chosen` name.
    """
    module = capture.stablehlo.module
    nodes = {node.id: node for node in module.nodes()}
    names = _Names(module, capture.program.inputs, capture.outputs, nodes)
    found = []
    for id, axes in over.items():
        for op in reversed(capture.links.back(id, "stablehlo", at="optimized")):
            node = nodes.get(op)
            if node is None:
                continue
            cuts, here = tuple(names.cuts(shardings, op)), shardings.specs.get(op, "")
            # Groups are named by the first mesh: an op of another one has other names.
            if mesh.issuperset(cut.axis for cut in cuts):
                if here and here != chosen.get(op, here):
                    continue
                cuts = tuple(cut for cut in cuts if cut.axis in axes)
            if cuts:
                opcode = node.opcode.rpartition(".")[2]
                found.append(TrafficReason(id, op, opcode, str(node.owner or ""), cuts))
                break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a user calls the inputs, outputs and ops of a StableHLO module."""

    module: Module
    inputs: Sequence[Input]
    outputs: Sequence[Input]
    nodes: Mapping[str, Node]

    def cuts(self, shardings: Propagation, op: str) -> Iterator[AxisCut]:
        """Yields the cuts of an op's operands and results."""
        results = shardings.results.get(op, ())
        several = len(results) > 1
        values = [(f"operand {n}", v) for n, v in enumerate(shardings.operands.get(op, ()))]
        values += [(f"result {n}" if several else "result", v) for n, v in enumerate(results)]
        for name, ways in values:
            yield from (self._cut(name, way) for way in ways)

    def _cut(self, value: str, way: Way) -> AxisCut:
        lines = (str(self.nodes[id].owner or "") for id in way.ops if id in self.nodes)
        source = way.source
        if way.kind == "input":
            source = input_name(self.module, self.inputs, int(source))
        elif way.kind == "output":
            number = int(source)
            source = self.outputs[number].name if number < len(self.outputs) else ""
        elif way.kind == "constraint":
            source = str(self.nodes[source].owner or "") if source in self.nodes else ""
        passed = tuple(dict.fromkeys(line for line in lines if line))
        return AxisCut(
            value, way.axis, way.dimension, way.kind, source, way.source, way.ops, passed
        )


def input_name(module: Module, inputs: Sequence[Input], number: int) -> str:
    """Returns the name of an input; JAX drops those that the program does not read."""
    if len(module.body().parameters) == len(inputs):
        return inputs[number].name
    mark = module.attrs.get(f"main arg{number}", "")
    named = [leaf for leaf in inputs if mark.startswith(leaf.path or leaf.name)]
    return max((leaf.name for leaf in named), key=len, default="")
