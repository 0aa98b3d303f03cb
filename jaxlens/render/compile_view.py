"""What `%%compile` shows: the cache's verdict, time per stage, kernels, cost, memory, machine code.

With options only what they name is shown; without, an overview and a tab for each.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from jaxlens.errors import LensError, OptionError, UnavailableError, nearest
from jaxlens.ir.capture import Capture
from jaxlens.ir.stage import BY_NAME
from jaxlens.lenses.cost import cost as cost_report
from jaxlens.lenses.kernels import Work, tally, what, works
from jaxlens.lenses.kernels import kernels as kernels_report
from jaxlens.lenses.memory import memory as memory_report
from jaxlens.lenses.report import Finding, Report, Table, amount, cells
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.times import duration
from jaxlens.lenses.times import times as times_report
from jaxlens.lenses.verdict import verdict as verdict_report
from jaxlens.render import hlo_lines, listings
from jaxlens.render.document import Block, Document, Findings, Fold, Listing, TableBlock, Tabs
from jaxlens.render.hlo_view import of_report, tab
from jaxlens.render.lean import lean
from jaxlens.render.taken import taken


class Run(Protocol):
    """Seconds of some executions and how they were measured, as `stages/run.py` gives them."""

    @property
    def seconds(self) -> tuple[float, ...]: ...
    @property
    def how(self) -> str: ...


def document(
    capture: Capture,
    *,
    why: bool = False,
    cost: bool = False,
    memory: bool = False,
    kernel: str | None = None,
    asm: bool = False,
    times: bool = False,
    run: Run | None = None,
    full: bool = False,
) -> Document:
    """Builds the output of `%%compile`.

    Args:
        capture: The program.
        why: Show the cache's verdict and what is new in the key.
        cost: Show flops and bytes.
        memory: Show bytes by kind, and the largest temporaries.
        kernel: Show this kernel.
        asm: Show the machine code of that kernel, or of all.
        times: Show seconds per stage.
        run: What an execution took, where one was asked for.
        full: Leave nothing out.

    Raises:
        OptionError: There is no kernel of that name.
        UnavailableError: What was asked for alone is not given by this backend.
    """
    # The verdict is about the caches before this look, and must not wait for a compile.
    blocks: list[Block] = []
    if why:
        blocks += of_report(verdict_report(capture))
    if cost:
        blocks += of_report(cost_report(capture))
    if memory:
        blocks += of_report(memory_report(capture))
    if kernel:
        blocks += _kernel(capture, kernel, asm)
    elif asm:
        blocks += listings.native(capture, "asm")
    if times:
        blocks += of_report(times_report(capture))
    if not blocks:
        blocks = _default(capture, full)
    measured = [TableBlock(_measured(run))] if run else []
    return Document("compile", taken(capture.program), (*measured, *blocks))


def _default(capture: Capture, full: bool) -> list[Block]:
    sentences = [*_sentences(capture, verdict_report), *_sentences(capture, _counted)]
    tabs = (
        tab("Overview", lambda: _overview(capture), in_text=True),
        tab("Your code", lambda: listings.costs(capture), help=BY_NAME["source"].meaning),
        tab(
            "Kernels",
            lambda: _kernels(capture),
            help="What each kernel computes; --kernel NAME shows its LLVM IR and machine code.",
        ),
        tab("Cost", lambda: of_report(cost_report(capture))),
        tab("Memory", lambda: of_report(memory_report(capture))),
        tab(
            BY_NAME["optimized"].title,
            lambda: [listings.listing(capture.optimized, full, alone=False)],
            help=BY_NAME["optimized"].meaning,
        ),
    )
    # Asked for last, when all steps are done.
    seconds = tab("Time", lambda: of_report(times_report(capture)), in_text=True)
    return [Findings(tuple(sentences)), *seconds.blocks, Tabs(tabs)]


def _counted(capture: Capture) -> Report:
    return Report("Kernels", (Finding(f"It runs as {tally(works(capture))}"),))


def _sentences(capture: Capture, lens: Callable[[Capture], Report]) -> Sequence[Finding]:
    try:
        return lens(capture).findings
    except UnavailableError as why:
        return (Finding(f"{why}.", "unknown"),)


def _overview(capture: Capture) -> list[Block]:
    """Kernels, then what is to be said of cost and memory."""
    found: list[Block] = []
    for lens in (kernels_report, cost_report, memory_report):
        try:
            report = lens(capture)
        except LensError as why:
            found.append(Findings((Finding(f"{why}.", "unknown"),)))
            continue
        if lens is not kernels_report:
            found.append(Findings(report.findings))
        found.append(TableBlock(report.tables[0]))
    return found


def _kernels(capture: Capture) -> list[Block]:
    """Each kernel behind its name, with its HLO."""
    return [
        Fold(f"{work.kernel.name}: {what(work)}", tuple(_facts(work))) for work in works(capture)
    ]


def _kernel(capture: Capture, name: str, only_asm: bool) -> list[Block]:
    """One kernel: its HLO, its lines, LLVM IR before and after, machine code."""
    done = works(capture)
    work = next((w for w in done if name in (w.kernel.name, w.kernel.instruction)), None)
    if work is None:
        raise OptionError(f"no kernel {name!r}; {nearest(name, [w.kernel.name for w in done])}")
    machine: list[Block] = [*listings.asm(work.kernel, capture)]
    codes = machine if only_asm else [*listings.llvm(work.kernel), *machine]
    return [*([] if only_asm else _facts(work)), *(codes or [_missing(work)])]


def _facts(work: Work) -> list[Block]:
    """What a kernel is, and the HLO that it computes."""
    kernel = work.kernel
    words = [f"{kernel.name} is a {kernel.kind}"]
    if work.place:
        words.append(work.place)
    if work.lines:
        words.append(f"from {listed(work.lines)}")
    if work.read is not None and work.written is not None:
        words.append(f"{amount(work.read)} in, {amount(work.written)} out")
    sentences = [Finding(f"{', '.join(words)}.", ids=(kernel.instruction,))]
    if kernel.note:
        sentences.append(Finding(f"{kernel.note}."))
    if work.node is None:
        return [Findings(tuple(sentences))]
    nodes = (work.node, *(node for node in work.inside if node is not work.node))
    lines = [hlo_lines.instruction(node, str(node.owner or "")) for node in nodes]
    return [Findings(tuple(sentences)), Listing("optimized", tuple(map(lean, lines)))]


def _missing(work: Work) -> Findings:
    note = work.kernel.note or f"a {work.kernel.kind} has no code of its own"
    return Findings((Finding(f"{work.kernel.name}: {note}.", "unknown"),))


def _measured(run: Run) -> Table:
    """What an execution took."""
    times = (median(run.seconds), min(run.seconds), max(run.seconds))
    row = cells(len(run.seconds), *map(duration, times))
    columns = ("runs", "median", "least", "most")
    return Table("Measured", columns, (row,), run.how, volatile=True, right=(0, 1, 2, 3))
