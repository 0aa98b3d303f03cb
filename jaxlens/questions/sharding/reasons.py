"""Why a collective is there: how its op's values are cut, and what asked for each cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.questions.sharding.propagation import AxisCut, Propagation


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
    lines = {id: str(node.owner or "") for id, node in nodes.items()}

    def named(cut: AxisCut) -> AxisCut:
        passed = tuple(dict.fromkeys(lines[op] for op in cut.ops if lines.get(op)))
        if cut.kind in ("input", "output"):
            source = asker_name(capture, cut.kind, int(cut.asker))
        else:
            source = lines.get(cut.asker, "")
        return replace(cut, source=source, lines=passed)

    found = []
    for id, axes in over.items():
        for op in reversed(capture.links.back(id, "stablehlo", at="optimized")):
            node = nodes.get(op)
            if node is None:
                continue
            cuts, here = shardings.cuts.get(op, ()), shardings.specs.get(op, "")
            # Groups are named by the first mesh: an op of another one has other names.
            if mesh.issuperset(cut.axis for cut in cuts):
                if here and here != chosen.get(op, here):
                    continue
                cuts = tuple(cut for cut in cuts if cut.axis in axes)
            if cuts:
                opcode = node.opcode.rpartition(".")[2]
                found.append(TrafficReason(id, op, opcode, lines[op], tuple(map(named, cuts))))
                break
    return tuple(found)


def asker_name(capture: Capture, kind: str, number: int) -> str:
    """Returns the name of an input or output; JAX drops inputs that the program does not read."""
    module, inputs, outputs = capture.stablehlo.module, capture.program.inputs, capture.outputs
    if kind == "output":
        return outputs[number].name if number < len(outputs) else ""
    if len(module.body().parameters) == len(inputs):
        return inputs[number].name
    mark = module.attrs.get(f"main arg{number}", "")
    named = [leaf for leaf in inputs if mark.startswith(leaf.path or leaf.name)]
    return max((leaf.name for leaf in named), key=len, default="")
