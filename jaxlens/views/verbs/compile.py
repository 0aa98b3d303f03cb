"""The view of `%%compile`: cache verdict, time per stage, kernels, cost, memory, machine code.

With options it shows only what they name; without, the user's lines and a tab for each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, nearest
from jaxlens.lenses.constants.facts import alarm as large_arrays
from jaxlens.lenses.cost.report import report as cost_report
from jaxlens.lenses.memory.report import report as memory_report
from jaxlens.lenses.program.kernels import Work, table, tally, what, works
from jaxlens.lenses.recompile.call_key import verdict_report
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.subject import Subject, subject_of
from jaxlens.lenses.times.facts import stages as stages_report
from jaxlens.lenses.times.report import alarm as unrolled_loop
from jaxlens.render.document import Block, Findings, Fold, Listing, Tab, TableBlock, Tabs
from jaxlens.report import Finding, Report, amount
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import Machine
from jaxlens.views.listings.panes import machine_pane, pane, stage_pane
from jaxlens.views.report_blocks import report_blocks
from jaxlens.views.verbs.overview import Overview

_OF_MEMORY = 2  # findings of the memory report shown above the tabs: the peak and the sizes
_ROWS, _MOST = 400, 100  # kernels in the table, and fusions with their HLO


def blocks(found: Overview, full: bool = False) -> list[Block]:
    """Returns the findings, the times, and the tabs from the user's lines to machine code."""
    subject = found.subject
    verdict = _said(lambda: verdict_report(found.verdict.get()))
    done, runs = counted_works(found)
    costs = _said(lambda: cost_report(found.counted.get()))
    memory = _said(lambda: memory_report(found.memory.get()))
    sentences = dict.fromkeys(
        (
            *verdict.findings,
            runs,
            *_said(lambda: Report("", unrolled_loop(subject))).findings,
            *_said(lambda: Report("", large_arrays(found.closed_over.get()))).findings,
            *costs.findings,
            *memory.findings[:_OF_MEMORY],
        )
    )  # several reports may give the same reason; it is shown once
    machines: tuple[Machine, ...] = ("llvm", "asm") if done else ()
    tabs = (
        pane(
            "source",
            lambda: stage_blocks.costs(found.counted.get(), done),
            title="Your code",
            help="Your lines, tinted by flops, over the kernels that each became.",
        ),
        pane(
            "kernels",
            lambda: [*kernels(done), *_computed_by(done)],
            title="Kernels",
            in_text=True,
            help="What each kernel computes; --kernel NAME shows its LLVM IR and machine code.",
        ),
        _figures("cost", "Cost", _beyond(costs, len(costs.findings))),
        _figures("memory", "Memory", _beyond(memory, _OF_MEMORY)),
        stage_pane(subject, "optimized", full),
        *(machine_pane(subject, done, stage) for stage in machines),
    )
    seconds = pane(
        "time", lambda: report_blocks(stages_report(subject)), title="Time", in_text=True
    )
    return [Findings(tuple(sentences)), *seconds.blocks, Tabs(tuple(t for t in tabs if t.blocks))]


def _figures(key: str, title: str, report: Report) -> Tab:
    return Tab(title, tuple(report_blocks(report)), True, "", key)


def counted_works(found: Overview) -> tuple[Sequence[Work], Finding]:
    """Returns the kernels, and the finding that counts them or says why there are none."""
    try:
        done = found.works.get()
    except LensError as why:
        return (), Finding(f"{why}.", "unknown")
    return done, Finding(tally(done))


def _said(report: Callable[[], Report]) -> Report:
    """Returns a report; if its facts are unavailable, a report with the error as its finding."""
    try:
        return report()
    except LensError as why:
        return Report("", (Finding(f"{why}.", "unknown"),))


def _beyond(report: Report, said: int) -> Report:
    """Returns a report without its first `said` findings, which are shown above."""
    return replace(report, findings=report.findings[said:])


def kernels(done: Sequence[Work]) -> list[Block]:
    """Returns the table of kernels."""
    if not done:
        return []
    shown = done[:_ROWS]
    left = len(done) - len(shown)
    cut = Findings((Finding(f"{left:,} more kernels are not listed: cap.kernels has all."),))
    return [TableBlock(table(shown)), *([cut] if left else [])]


def _computed_by(done: Sequence[Work]) -> list[Block]:
    """Returns a fold for each fusion, with its HLO."""
    fused = [work for work in done if len(work.inside) > 1]
    each = [Fold(f"{w.kernel.name}: {what(w)}", tuple(_computed(w))) for w in fused[:_MOST]]
    rest = len(fused) - len(each)
    more = [Findings((Finding(f"{rest:,} more: --kernel NAME shows one."),))] if rest else []
    return [Fold("What each fusion computes", (*each, *more))] if each else []


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The facts of `%%compile --kernel` and `--asm`.

    Attributes:
        subject: The program.
        works: Its kernels.
        kernel: The name of one kernel; "" for all.
        asm: Whether to show only machine code.
    """

    subject: Subject
    works: Sequence[Work]
    kernel: str = ""
    asm: bool = False


def kernel_facts(capture: Capture, kernel: str = "", asm: bool = False) -> KernelFacts:
    """Returns the facts of a capture's kernels."""
    subject = subject_of(capture, "optimized", "llvm", "asm", "kernels")
    return KernelFacts(subject, works(subject) if kernel else (), kernel, asm)


def kernel_blocks(found: KernelFacts, full: bool = False) -> list[Block]:
    """Returns one kernel's HLO, source lines, LLVM IR and machine code, or all machine code.

    Raises:
        OptionError: There is no kernel of that name.
    """
    name, done = found.kernel, found.works
    if not name:
        return stage_blocks.native(found.subject, "asm")
    work = next((w for w in done if name in (w.kernel.name, w.kernel.instruction)), None)
    if work is None:
        raise OptionError(f"no kernel {name!r}; {nearest(name, [w.kernel.name for w in done])}")
    machine = stage_blocks.asm(work.kernel, found.subject)
    if found.asm:
        return [*machine] or [_missing(work)]
    codes = [*stage_blocks.llvm(work.kernel), *machine]
    tabs = [Tab("HLO", tuple(_computed(work)), in_text=True)]
    tabs += [Tab(code.title, (replace(code, title=""),), in_text=True) for code in codes]
    missing = [] if codes else [_missing(work)]
    return [_facts(work), *missing, Tabs(tuple(t for t in tabs if t.blocks))]


def _facts(work: Work) -> Findings:
    """Returns a sentence on a kernel: kind, launch, source lines, bytes."""
    kernel = work.kernel
    words = [f"{kernel.name} is a {kernel.kind}"]
    if work.place:
        words.append(work.place)
    if kernel.launch:
        words.append(f"launched as {kernel.launch}")
    if work.lines:
        words.append(f"from {listed(work.lines)}")
    if work.read is not None and work.written is not None:
        words.append(f"{amount(work.read)} in, {amount(work.written)} out")
    sentences = [Finding(f"{', '.join(words)}.", ids=(kernel.instruction,))]
    if kernel.note:
        sentences.append(Finding(f"{kernel.note}."))
    return Findings(tuple(sentences))


def _computed(work: Work) -> list[Block]:
    """Returns a kernel's HLO instructions."""
    if work.node is None:
        return []
    nodes = (work.node, *(node for node in work.inside if node is not work.node))
    lines = [hlo_lines.instruction(node, str(node.owner or "")) for node in nodes]
    return [Listing("optimized", tuple(map(hlo_lines.lean, lines)))]


def _missing(work: Work) -> Findings:
    note = work.kernel.note or f"a {work.kernel.kind} has no code of its own"
    return Findings((Finding(f"{work.kernel.name}: {note}.", "unknown"),))
