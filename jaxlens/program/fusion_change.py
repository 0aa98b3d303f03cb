"""The change across fusion: the instructions of each fusion, and those computed more than once.

"Before fusion" is the input of the first pass whose output has `fusion` instructions, whatever the
pass is called: XLA:CPU's library rewriter makes some before the pass named fusion does, and GPU and
TPU have passes of their own. "After" is the optimised program.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.async_fusions import waits
from jaxlens.ir.hlo.instructions import PLUMBING
from jaxlens.ir.stamps import unstamped
from jaxlens.ir.trips import CONTROL
from jaxlens.links.match.instruction_fates import ProgramChange, between
from jaxlens.program.sentences import Quoter, listed
from jaxlens.report import Finding, NumberColumn, Table, cells, count, is_cause, table

_CHEAP = PLUMBING | {"broadcast", "iota", "reshape"}
_FUSION = re.compile(r'\n +(?:ROOT )?%?[^\s=]++ = [^"\n]*? fusion\(')
# Characters of dumps beyond which passes are not named: in a report on fusion alone
# (TRACE_LIMIT), and where fusion is one question of several (GLANCE_LIMIT).
TRACE_LIMIT = 20_000_000
GLANCE_LIMIT = 700_000


def across_fusion(
    capture: Capture, limit: int = TRACE_LIMIT, dumps: Sequence[PassStage] | None = None
) -> tuple[ProgramChange, str]:
    """Computes the change from just before fusion to the optimised program.

    Args:
        capture: Any capture whose backend provides optimised HLO.
        limit: Characters of dumps that may be read to name the responsible passes.
        dumps: The dumps to use; by default those of every pass.

    Returns:
        The change, and a sentence that says which programs were compared.

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    programs = capture.links.programs()
    try:
        passes = capture.passes if dumps is None else dumps
    except UnavailableError as why:
        before, after = capture.hlo.module, capture.optimized.module
        change = between(before, after, (), programs)
        return change, f"Before: HLO before optimisation ({why}). After: optimised."
    after = capture.optimized.module
    first = first_fusing(passes)
    if first is None:
        change = between(passes[0].stage.module, after, (), programs)
        return change, "No pass made a fusion. Before: HLO before optimisation. After: optimised."
    start, rest = passes[max(first - 1, 0)], passes[first:]
    size = length(rest)
    note = f"Before: the program before {passes[first].name}, the first pass that fused. "
    note += "After: the optimised program."
    if size > limit:
        note += (
            f" Passes are not named: %hlo --fusion --full reads {size / 1e6:.0f} MB of dumps "
            "for that."
        )
        rest = ()
    return between(start.stage.module, after, rest, programs), note


def length(passes: Sequence[PassStage]) -> int:
    """Estimates the characters of all changed dumps by the length of the last; reads no other."""
    changed = [stage for stage in passes if stage.changed]
    return len(changed) * len(unstamped(changed[-1].stage.raw)) if changed else 0


def first_fusing(passes: Sequence[PassStage]) -> int | None:
    """Returns the position of the first dump with a fusion; None where the last dump has none.

    Uses bisection, because dumps of large programs are long. That is sound because no pass removes
    all fusions again: the dumps are first all without, then all with a fusion.
    """
    if not passes or not _fuses(passes[-1]):
        return None
    return bisect_left(range(len(passes)), True, key=lambda index: _fuses(passes[index]))


def _fuses(stage: PassStage) -> bool:
    """Whether a dump has a fusion; reads no more than its text."""
    return _FUSION.search(stage.stage.raw) is not None


def findings(change: ProgramChange, quote: Quoter) -> list[Finding]:
    """Returns the findings on a change across fusion; `quote` has the user's lines."""
    before, after = operations(change.before), operations(change.after)
    fusions = [node for node in after if node.opcode == "fusion"]
    unfused = len(after) - len(fusions)
    kinds = f": {count(len(fusions), 'fusion')} and {count(unfused, 'other')}" if unfused else ""
    if not fusions:
        kinds = ": no fusion among them"
    sizes = f"{count(len(before), 'operation')} into {len(after):,}"
    text = f"Fusion joined {sizes}{kinds}" if len(after) < len(before) else f"{sizes}{kinds}"
    return [
        Finding(
            f"{text} (parameters, constants and tuples are not counted).",
            ids=tuple(node.id for node in fusions),
        ),
        *again(change, quote),
    ]


def fusion_sizes(change: ProgramChange) -> tuple[int, int]:
    """Returns how many operations run one by one before and after fusion."""
    return len(operations(change.before)), len(operations(change.after))


def operations(module: Module) -> list[Node]:
    """Returns the instructions that run one by one: of the entry, loops, branches and calls.

    Parameters, constants, tuples, bitcasts and the ends of asynchronous ones are left out.
    """
    regions, visited = [module.entry], {module.entry}
    nodes = []
    for name in regions:
        for node in module.regions[name].nodes:
            if node.opcode not in PLUMBING and not waits(node, module):
                nodes.append(node)
            if node.opcode in CONTROL:
                inner = [r for r in node.regions if r not in visited and r in module.regions]
                regions += inner
                visited.update(inner)
    return nodes


def recomputed(change: ProgramChange) -> Mapping[str, int]:
    """Returns the number of copies of each instruction that is computed more than once.

    Instructions that cost nothing to repeat, such as the broadcast of a constant or the counter of
    a loop, are left out.
    """
    nodes = change.before.nodes()
    cheap = {node.id for node in nodes if node.opcode in _CHEAP or node.type.shape == ()}
    return {
        id: fate.copies for id, fate in change.fates.items() if fate.copies > 1 and id not in cheap
    }


def again(change: ProgramChange, quote: Quoter) -> list[Finding]:
    """Returns the finding on the value that is computed several times, where one stands out.

    It is a fifth of the bytes of all of them, and named by the user's expression where that is
    known.
    """
    counts = recomputed(change)
    nodes = {node.id: node for node in change.before.nodes()}
    sizes = {id: (nodes[id].type.bytes or 0) * (copies - 1) for id, copies in counts.items()}
    id = max(sizes, key=lambda id: (sizes[id], id), default="")
    if not id or not is_cause(sizes[id], sum(sizes.values())):
        return []
    node, piece = nodes[id], quote.piece(nodes[id].owner)
    name = f"`{piece}` ({node.owner}, {node.type})" if piece else f"{id} ({node.type})"
    places = list(dict.fromkeys(f or "outside of fusions" for f in change.fates[id].fusions))
    others = f"; so are {count(len(counts) - 1, 'other value')}" if len(counts) > 2 else ""
    text = f"{name} is computed {counts[id]} times, not stored: in {listed(places)}{others}."
    return [Finding(text, ids=tuple(counts))]


def fates_table(change: ProgramChange) -> Table:
    """Returns a table of the number of instructions by fate and responsible pass."""
    tally = Counter((f.name, "" if f.name == "same" else f.by) for f in change.fates.values())
    order = {"same": 0, "fused": 1, "rewritten": 2, "merged": 3, "folded": 4, "removed": 5}
    ranked = sorted(tally.items(), key=lambda item: (order[item[0][0]], item[0][1]))
    rows = [cells(name, by, number) for (name, by), number in ranked]
    rows += [cells("added", "", len(change.added))] if change.added else []
    return table("Fates", ("fate", "by", NumberColumn("instructions", bar="n")), rows)
