"""What each transform made of the program below it, in sentences, and its rules in tables."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from jaxlens.program.sentences import lines_of, listed, opcodes
from jaxlens.questions.trace.ladder.facts import STAGE, Ladder
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
    return Report("Ladder", tuple(_counts(ladder)), (_rungs(ladder), *_tables(ladder)))


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


def _rungs(ladder: Ladder) -> Table:
    """Returns a table with one row per rung."""
    rows = []
    earlier: set[str] = set()
    for rung in ladder.rungs:
        primitives = dict.fromkeys(node.opcode for node in rung.module.nodes())
        new = [name for name in primitives if name not in earlier]
        earlier.update(primitives)
        counts = rung.equations, rung.forward, len(rung.backward)
        rows.append((rung.title, *counts, listed(new, 8)))
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
