"""The view of `%%compile`: cache verdict, time per stage, kernels, cost, memory, machine code.

With options it shows only what they name; without, a tab for each, the kernels first.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, UnavailableError
from jaxlens.ir.columns import counts
from jaxlens.ir.facts import Constant, Verdict
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.instructions import input_names
from jaxlens.links.match.instruction_fates import ProgramChange
from jaxlens.program.call_key import verdict_report
from jaxlens.program.closed_over import alarm as large_arrays
from jaxlens.program.counted import Counted
from jaxlens.program.fusion_change import fusion_sizes
from jaxlens.program.kernel_cost import KernelCost, points
from jaxlens.program.kernels import Work, tallied, tally, what
from jaxlens.program.published_limits import published
from jaxlens.program.subject import Given
from jaxlens.question import Pane
from jaxlens.render.document import (
    Block,
    Findings,
    Fold,
    Line,
    Listing,
    Piece,
    Tab,
    TableBlock,
)
from jaxlens.render.graph.figure import Heat
from jaxlens.render.html.lazy_lines import LazyLines
from jaxlens.report import Finding, Report, count, explains, ranked
from jaxlens.viewer.kernel_table import alike, by_cost, table
from jaxlens.views.figures.heat import of_kernels
from jaxlens.views.listings import machine, stage_blocks
from jaxlens.views.listings.machine import Machine
from jaxlens.views.listings.panes import HEAD, chained, machine_pane, pane, stage_pane
from jaxlens.views.report_blocks import MOST, leading_blocks, report_blocks

_OF_PANE = 1  # finding of a question that its pane leaves out, its answer: it stands above
_ROWS, _MOST = 400, 100  # kernels in the table, and fusions with their HLO
_STORY = explains(1, 1)
_CODE, _LARGE = 100, 1_000  # lines of LLVM IR and of machine code of a small program; equations
EXPLORED = 3  # lines of each program in the page of `%%explore` as markup; the rest is deflated
_HEAD = 4  # lines of these in the page; the rest is deflated

_MISSING = explains(1, 1)  # weight of the reason why a whole answer is missing


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts that `%%compile` shows without options, and `%%explore` too.

    Each is a value or the error why it is unavailable.

    Attributes:
        verdict: Whether the call would have hit JAX's caches.
        works: The kernels, each with its HLO instructions.
        costs: The flops and bytes of each, by instruction.
        counted: Flops and bytes.
        closed_over: Arrays in the function's closure.
        subject: The program.
        panes: What questions add.
        seconds: Measured seconds of each instruction in a run; None where nothing was measured.
    """

    verdict: Given[Verdict]
    works: Given[list[Work]]
    costs: Given[Mapping[str, KernelCost]]
    counted: Given[Counted]
    closed_over: Given[tuple[Constant, ...] | None]
    subject: Capture
    panes: tuple[Pane, ...] = ()
    seconds: Mapping[str, float] | None = None

    def times(self) -> tuple[Mapping[str, float] | None, str]:
        """Returns the seconds of each instruction, and "" for measured ones.

        Where nothing was measured, the least by the published limits of the device, and its name.
        """
        if self.seconds is not None:
            return self.seconds, ""
        try:
            limits = published(self.subject.program.target.kind)
        except OptionError:
            return None, ""
        least = points([*self.costs.or_else({}).values()], limits)
        return {point.kernel.instruction: point.seconds for point in least}, limits.name

    def heat(self) -> Heat:
        """Returns what the boxes of the optimised program can be shaded by."""
        return of_kernels(self.subject.optimized.module, self.costs.or_else({}), *self.times())

    def compute(self) -> None:
        """Computes first what HLO alone gives, while XLA generates code; then what waits for it."""
        early = (pane.early for pane in self.panes)
        for facts in (self.counted.get, self.costs.get, *early, self.works.get):
            with suppress(LensError):
                facts()

    def reports(self) -> list[tuple[Pane, Report]]:
        """Returns what questions add, each with its report, or with the reason why it has none."""
        return [(pane, report_or_reason(pane.report.get)) for pane in self.panes]


def blocks(
    overview: Overview,
    full: bool = False,
    programs: Sequence[Tab] = (),
    change: ProgramChange | None = None,
    told: Sequence[Finding] = (),
    open: tuple[str, ...] = ("kernels", "source", "optimized"),
) -> list[Block]:
    """Returns the findings, and the panes from the user's lines to machine code.

    Args:
        overview: The program.
        full: Whether nothing is left out.
        programs: The panes of its stages as text and graphs, of `%%explore`; the text form has
            none, nor what questions add. By default the optimised program.
        change: The change across fusion; None where it is unknown.
        told: Further findings.
        open: Keys of the panes that are open at first.
    """
    subject, explores = overview.subject, bool(programs)
    programs = programs or [stage_pane(subject, "optimized", full)]
    overview.compute()
    arrays = report_or_reason(lambda: Report("", large_arrays(overview.closed_over.get())))
    verdict = Report("")
    if not subject.program.unjitted:  # which has no cache: the first line says how it runs
        verdict = report_or_reason(lambda: _news(overview.verdict.get()))
    works, runs = counted_works(overview)
    reports = overview.reports()
    module = jaxpr_module(subject)
    sentences = [*story(module, works, runs, change), *told, *verdict.findings, *arrays.findings]
    told_of = [report.findings for row, report in reports if row.is_told()]
    answers = [f for found in told_of for n, f in enumerate(found) if f.weight or not n]
    above = ranked((*sentences, *answers))[:MOST]
    added: dict[str, Tab] = {}
    for question, report in reports:
        # Those of its findings that neither lead nor answer its question stay in its pane.
        leave = _OF_PANE if question.is_told() else 0
        inside = tuple(f for f in report.findings[leave:] if f not in above)
        sentences += (f for f in report.findings if f not in inside)
        shown = tuple(report_blocks(replace(report, findings=inside)))
        added[question.key] = Tab(question.title, shown, not explores, question.help, question.key)
    machines: tuple[Machine, ...] = ("llvm", "asm") if works else ()
    # With all of its code the page of a small program would be twice as long.
    is_small = explores and module is not None and counts(module).total() <= _LARGE
    most = machine.MOST if full else _CODE if is_small else machine.PAGE
    ranking = costliest(works, overview)
    first, spelled = () if is_small else ranking, () if explores else works
    head = EXPLORED if explores else HEAD
    seconds = () if explores or "time" not in added else added.pop("time").blocks
    tabs = (
        pane(
            "kernels",
            lambda: [*kernels(ranking, overview), *_computed_by(spelled, subject)],
            title="Kernels",
            in_text=True,
            help="What each kernel computes; --kernel NAME shows its LLVM IR and machine code.",
            count=kernel_count(works),
        ),
        source_pane(overview, works, in_text=explores),
        *programs,
        *added.values(),
        *(machine_pane(subject, works, stage, most, head, first) for stage in machines),
    )
    chain = chained(tabs, open, elsewhere="" if explores else "time")
    return [*leading_blocks(sentences, full), *seconds, chain]


def _news(verdict: Verdict) -> Report:
    """Reports the verdict on JAX's caches; that the first call of a function misses is no news."""
    first = verdict.hit is False and not verdict.earlier
    return Report("") if first else verdict_report(verdict)


def story(
    module: Module | None,
    works: Sequence[Work],
    runs: Finding,
    change: ProgramChange | None = None,
) -> list[Finding]:
    """Returns what the stages changed in a sentence, with the counts of the panes.

    Advice that saves a quarter comes before it.

    Args:
        module: The jaxpr; None for a program opened from a later stage.
        works: The kernels; none where they are unknown.
        runs: The finding that says how many kernels there are, or why they are unknown.
        change: The change across fusion; None where it is unknown.
    """
    equations = count(counts(module).total(), "equation") if module else ""
    kernels = tallied(work.kind for work in works)
    before, after = fusion_sizes(change) if change else (0, 0)
    joined = f"fusion joined {count(before, 'operation')} into {after:,}" * (after < before)
    if not (equations and kernels):
        said = ", ".join(filter(None, (equations, joined)))
        told = [Finding(f"{said}.", weight=_STORY)] if said else []
        return [*told, replace(runs, weight=max(runs.weight, _STORY))]
    became = f"{equations} became {kernels}"
    return [Finding(f"{'; '.join(filter(None, (became, joined)))}.", weight=_STORY)]


def source_pane(overview: Overview, works: Sequence[Work], in_text: bool = False) -> Tab:
    """Returns the pane of the user's lines, tinted by flops, over the kernels of each."""

    def shown() -> list[Block]:
        counted = overview.counted.get()
        return stage_blocks.costs(counted.subject, counted.flops, works)

    return pane(
        "source",
        shown,
        title="Your code",
        in_text=in_text,
        help="Your lines, tinted by flops, over the kernels that each became.",
    )


def jaxpr_module(subject: Capture) -> Module | None:
    """Returns the jaxpr; None for a program opened from a later stage."""
    try:
        return subject.jaxpr.module
    except UnavailableError:
        return None


def counted_works(overview: Overview) -> tuple[Sequence[Work], Finding]:
    """Returns the kernels, and the finding that counts them or says why there are none."""
    try:
        works = overview.works.get()
    except LensError as why:
        return (), Finding(f"{why}.", "unknown", weight=_MISSING)
    # A sentence that counts kernels says much of a program that is one, little of one of hundreds.
    return works, Finding(tally(work.kind for work in works), weight=explains(1, len(works)))


def kernel_count(works: Sequence[Work]) -> str:
    """Returns how many kernels and calls there are; "" where they are unknown."""
    return f"{len(works):,} kernels and calls" if works else ""


def report_or_reason(report: Callable[[], Report]) -> Report:
    """Returns a report; if its facts are unavailable, a report with the error as its finding."""
    try:
        return report()
    except LensError as why:
        return Report("", (Finding(f"{why}.", "unknown", weight=_MISSING),))


def costliest(works: Sequence[Work], overview: Overview) -> list[Work]:
    """Returns the kernels, those that cost most first."""
    return by_cost(works, overview.costs.or_else({}), overview.times()[0])


def kernels(works: Sequence[Work], overview: Overview) -> list[Block]:
    """Returns the table of kernels, those that cost most first."""
    if not works:
        return []
    costs, (seconds, limits) = overview.costs.or_else({}), overview.times()
    subject = overview.subject
    names = input_names(subject.optimized.module, subject.program.inputs)
    rows = alike(works, costs, seconds, names)
    left = sum(len(row.works) for row in rows[_ROWS:])
    cut = Findings((Finding(f"{left:,} more kernels are not listed: cap.kernels has all."),))
    shown = table(rows[:_ROWS], costs, seconds, limits)
    return [TableBlock(shown, shown.volatile), *([cut] if left else [])]


def _computed_by(works: Sequence[Work], subject: Capture) -> list[Block]:
    """Returns the HLO of each fusion, in a fold."""
    fused = [work for work in works if len(work.inside) > 1]
    if not fused:
        return []
    lines, names = list[Line](), stage_blocks.names_of(subject)
    for work in fused[:_MOST]:
        title = Piece(f"# {work.kernel.name}: {what(work)}", "comment")
        lines += [Line((title,)), *stage_blocks.computed(work, names)]
    note = f"{len(fused) - _MOST:,} more: --kernel NAME shows one." if len(fused) > _MOST else ""
    more = LazyLines(max(len(lines) - _HEAD, 0), lambda: lines, start=_HEAD)
    shown = Listing("optimized", tuple(lines[:_HEAD]), note, more or ())
    return [Fold("What each fusion computes", (shown,))]
