"""What each transform made of the program below it, in sentences, and its rules in tables."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from jaxlens.ir.graph import Module, Node
from jaxlens.program.sentences import lines_of, listed, opcodes
from jaxlens.questions.trace.ladder.facts import STAGE, Ladder, by_place, places_of
from jaxlens.report import Cell, Finding, NumberColumn, Report, Table, count, table

_RULE_NAMES = {"forward": "forward pass", "backward": "backward pass", "batch": "batching"}
_CALLS: Mapping[str, str] = {
    "jit": "",
    "checkpoint": ", which a backward pass computes again instead of keeping its values",
}
_HOW: Mapping[str, str] = {
    "vmap": "; it is one program for all examples, not a loop over them",
    "jvp": "; beside each value stands its derivative in the one direction that is given",
    "jacfwd": "; it is jvp, batched over one direction for each number of the input",
    "jacrev": "; it is a backward pass, batched over one direction for each number of the result",
}


def report(ladder: Ladder) -> Report:
    """Reports the ladder in sentences and tables."""
    findings = [*_counts(ladder), *dict.fromkeys(_turned(ladder))]
    return Report("Ladder", tuple(findings), (_rungs(ladder), *_tables(ladder)))


def _counts(ladder: Ladder) -> Iterator[Finding]:
    for below, rung in pairwise(ladder.rungs):
        has = count(rung.equations, "equation")
        if rung.transform in _CALLS:
            yield Finding(
                f"{rung.transform} changes no equation: {rung.title} is one call of the "
                f"program below{_CALLS[rung.transform]}."
            )
            continue
        text = f"{rung.transform} made {has} of the {below.equations:,} of {below.title}"
        if rung.backward and not below.backward:
            text += f": {rung.forward:,} forward, {len(rung.backward):,} backward"
        yield Finding(f"{text}{_HOW.get(rung.transform, '')}.")


def _turned(ladder: Ladder) -> Iterator[Finding]:
    """Yields conditions that vmap replaced, and loops that it makes run longer."""
    for below, rung in pairwise(ladder.rungs):
        if rung.transform != "vmap":
            continue
        new, places = by_place(rung.module), places_of(below.module)
        for node in below.module.nodes():
            back = node.id in below.backward
            now = [n for n in new.get(places[node.id], ()) if (n.id in rung.backward) == back]
            kinds = {n.opcode for n in now}
            where = f" ({', '.join(lines_of([node]))})" if node.owner else ""
            if node.opcode == "cond" and "cond" not in kinds and "select_n" in kinds:
                yield Finding(
                    f"The cond{where} became select_n under vmap, for its index differs from "
                    "example to example: every branch is computed for every example."
                )
            elif node.opcode == "while" and _waits(rung.module, now):
                yield Finding(
                    f"The while loop{where} runs under vmap until its last example is done: "
                    "those that are done earlier are computed on, and select_n keeps their values."
                )


def _waits(module: Module, now: Sequence[Node]) -> bool:
    """Whether a loop's condition is batched, so that the loop runs until all examples are done."""
    names = [n.attrs.get("cond_jaxpr", "") for n in now if n.opcode == "while"]
    regions = [module.regions[name] for name in names if name in module.regions]
    return any(
        node.opcode == "reduce_or" or (node.results[0].name in region.results and node.type.shape)
        for region in regions
        for node in region.nodes
    )


def _rungs(ladder: Ladder) -> Table:
    """Returns a table with one row per rung."""
    rows = []
    earlier: dict[str, None] = {}
    for rung in ladder.rungs:
        primitives = dict.fromkeys(node.opcode for node in rung.module.nodes())
        new = listed([name for name in primitives if name not in earlier], 8)
        earlier |= primitives
        rows.append((rung.title, rung.equations, rung.forward, len(rung.backward), new))
    figures = [NumberColumn(name, bar="equations") for name in ("equations", "forward", "backward")]
    note = "Equations of bodies count once. Backward: added by transposition, as their scope says."
    return table("Rungs", ["program", *figures, "primitives that are new"], rows, note)


def _tables(ladder: Ladder) -> Iterator[Table]:
    """Yields a table of rules for each transform."""
    for n, rung in enumerate(ladder.rungs):
        uses = [use for use in ladder.rules if use.rung == n]
        if not uses:
            continue
        below = {node.id: node for node in ladder.rungs[n - 1].module.nodes()}
        equations = {node.id: node for node in rung.module.nodes()}
        rows = (
            (
                use.primitive,
                _RULE_NAMES[use.rule],
                use.words or "the rule of this primitive is not described here",
                Cell(opcodes(equations[id] for id in use.made), ids=use.made),
                listed(lines_of(below[id] for id in use.sources)),
            )
            for use in uses
        )
        columns = ("primitive", "rule", "what it does", "equations there now", "from lines")
        title = f"Rules that {rung.transform} used"
        yield table(title, columns, rows, stage=f"{STAGE}{n}")
