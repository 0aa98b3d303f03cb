"""What `%%compile` shows: the cache's verdict, time per stage, kernels, cost, memory, machine code.

With options only what they name is shown; without, the user's lines and a tab for each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, nearest
from jaxlens.ir.driver import Needs, Run
from jaxlens.ir.facts import Program
from jaxlens.lenses.constants.facts import alarm as large_arrays
from jaxlens.lenses.constants.facts import captured as captured_report
from jaxlens.lenses.cost.report import cost as cost_report
from jaxlens.lenses.memory.checkpoint import trials as memory_trials
from jaxlens.lenses.memory.report import memory as memory_report
from jaxlens.lenses.program.kernels import Work, table, tally, what, works
from jaxlens.lenses.recompile.verdict import verdict as verdict_report
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.sharding.facts import devices
from jaxlens.lenses.times.facts import instructions
from jaxlens.lenses.times.facts import stages as stages_report
from jaxlens.lenses.times.report import alarm as unrolled_loop
from jaxlens.options import CompileOptions
from jaxlens.render.document import Block, Document, Findings, Fold, Listing, Tab, TableBlock, Tabs
from jaxlens.report import Finding, Report, Table, amount, cells, duration
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import Machine
from jaxlens.views.listings.panes import machine_pane, pane, stage_pane
from jaxlens.views.questions import compare as comparison
from jaxlens.views.questions import cost as cost_view
from jaxlens.views.questions import memory as memory_view
from jaxlens.views.questions import sharding as sharding_view
from jaxlens.views.questions import times as times_view
from jaxlens.views.report_blocks import report_blocks

_OF_MEMORY = 2  # findings of that report that stand above the tabs: the peak and the sizes
_SMALL = 4_000  # instructions
_ROWS, _MOST = 400, 100  # kernels in the table, and fusions with their HLO
_LINKED = ("jaxpr", "optimized", "kernels")


def document(
    capture: Capture, options: CompileOptions | None = None, run: Run | None = None
) -> Document:
    """Builds the output of `%%compile`.

    Args:
        capture: The program.
        options: What to show; by default all of it, in tabs.
        run: What an execution took, where one was asked for.

    Raises:
        OptionError: There is no kernel of that name.
        UnavailableError: What was asked for alone is not given by this backend.
    """
    asked = options or CompileOptions()
    measured = [TableBlock(_measured(run), asked=True)] if run else []
    if asked.against is not None:
        changed = comparison.document(asked.against, capture, full=asked.full)
        return replace(changed, blocks=(*measured, *changed.blocks))
    shows = {**_ALONE, **_costs(run)}
    blocks = [
        block
        for name, show in shows.items()
        if getattr(asked, name)
        for block in show(capture, asked)
    ]
    small = not blocks or _is_small(capture)
    if not blocks:
        blocks = _default(capture, asked.full)
    linked = any(isinstance(block, Tabs) for block in blocks) and small and not asked.kernel
    web = weave(capture, _LINKED) if linked else None
    program = _spread(capture) if asked.sharding else capture.program
    timed = asked.times or asked.scan
    return Document("compile", taken(program), (*measured, *blocks), web, timed=timed)


def needs(capture: Capture, asked: CompileOptions) -> Needs:
    """What is needed for all that is shown."""
    several = asked.sharding and devices(capture) > 1
    alone = any(getattr(asked, name) for name in _ALONE if name not in ("why", "sharding"))
    return Needs(
        compiled=alone or not (asked.why or asked.sharding),
        passes="all" if asked.captured or several else "",
        profile=asked.times or asked.scan,
    )


def _spread(capture: Capture) -> Program:
    """The program on as many devices as it is for: a `shard_map` may name more than its inputs."""
    program = capture.program
    return replace(program, target=replace(program.target, devices=devices(capture)))


def _is_small(capture: Capture) -> bool:
    """Whether linking panes costs next to nothing beside the answer to one question."""
    size = instructions(capture)
    return size is not None and size <= _SMALL


def _reported(
    lens: Callable[[Capture], Report],
) -> Callable[[Capture, CompileOptions], list[Block]]:
    return lambda capture, _: report_blocks(lens(capture))


def _costs(
    run: Run | None,
) -> dict[str, Callable[[Capture, CompileOptions], list[Block]]]:
    """What `--cost` and `--roofline` show, with the seconds of a watched run."""
    seconds = run.instructions if run else None

    def shown(capture: Capture, options: CompileOptions) -> list[Block]:
        return cost_view.blocks(capture, options.roofline, seconds)

    return {"cost": shown, "roofline": lambda cap, asked: [] if asked.cost else shown(cap, asked)}


def _memory(capture: Capture, checkpoint: bool) -> list[Block]:
    return memory_view.blocks(capture, memory_trials(capture) if checkpoint else ())


def _code(capture: Capture, options: CompileOptions) -> list[Block]:
    """The machine's instructions of every kernel; those of one kernel stand with it."""
    return [] if options.kernel else stage_blocks.native(capture, "asm")


def _default(capture: Capture, full: bool) -> list[Block]:
    """What is to be said of it, then the user's lines and what lies under them."""
    verdict = _asked(capture, verdict_report)
    done, runs = counted_works(capture)
    costs, memory = _asked(capture, cost_report), _asked(capture, memory_report)
    sentences = dict.fromkeys(
        (
            *verdict.findings,
            runs,
            *_asked(capture, lambda cap: Report("", unrolled_loop(cap))).findings,
            *_asked(capture, lambda cap: Report("", large_arrays(cap))).findings,
            *costs.findings,
            *memory.findings[:_OF_MEMORY],
        )
    )  # of a reason that several give, once
    machines: tuple[Machine, ...] = ("llvm", "asm") if done else ()
    tabs = (
        pane(
            "source",
            lambda: stage_blocks.costs(capture, done),
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
        stage_pane(capture, "optimized", full),
        *(machine_pane(capture, done, stage) for stage in machines),
    )
    seconds = pane(
        "time", lambda: report_blocks(stages_report(capture)), title="Time", in_text=True
    )
    return [Findings(tuple(sentences)), *seconds.blocks, Tabs(tuple(t for t in tabs if t.blocks))]


def _figures(key: str, title: str, report: Report) -> Tab:
    return Tab(title, tuple(report_blocks(report)), True, "", key)


def counted_works(capture: Capture) -> tuple[Sequence[Work], Finding]:
    """The kernels, and the sentence that counts them or says why there are none."""
    try:
        done = works(capture)
    except LensError as why:
        return (), Finding(f"{why}.", "unknown")
    return done, Finding(tally(done))


def _asked(capture: Capture, lens: Callable[[Capture], Report]) -> Report:
    """A lens's report; where this backend does not give the facts, the sentence that says so."""
    try:
        return lens(capture)
    except LensError as why:
        return Report("", (Finding(f"{why}.", "unknown"),))


def _beyond(report: Report, said: int) -> Report:
    """A report without the findings that were said already."""
    return replace(report, findings=report.findings[said:])


def kernels(done: Sequence[Work]) -> list[Block]:
    """The table of kernels."""
    if not done:
        return []
    shown = done[:_ROWS]
    left = len(done) - len(shown)
    cut = Findings((Finding(f"{left:,} more kernels are not listed: cap.kernels has all."),))
    return [TableBlock(table(shown)), *([cut] if left else [])]


def _computed_by(done: Sequence[Work]) -> list[Block]:
    """Each fusion behind its name with its HLO."""
    fused = [work for work in done if len(work.inside) > 1]
    each = [Fold(f"{w.kernel.name}: {what(w)}", tuple(_computed(w))) for w in fused[:_MOST]]
    rest = len(fused) - len(each)
    more = [Findings((Finding(f"{rest:,} more: --kernel NAME shows one."),))] if rest else []
    return [Fold("What each fusion computes", (*each, *more))] if each else []


def _kernel(capture: Capture, name: str, only_asm: bool) -> list[Block]:
    """One kernel: its HLO, its lines, LLVM IR before and after, machine code."""
    done = works(capture)
    work = next((w for w in done if name in (w.kernel.name, w.kernel.instruction)), None)
    if work is None:
        raise OptionError(f"no kernel {name!r}; {nearest(name, [w.kernel.name for w in done])}")
    machine = stage_blocks.asm(work.kernel, capture)
    if only_asm:
        return [*machine] or [_missing(work)]
    codes = [*stage_blocks.llvm(work.kernel), *machine]
    tabs = [Tab("HLO", tuple(_computed(work)), in_text=True)]
    tabs += [Tab(code.title, (replace(code, title=""),), in_text=True) for code in codes]
    missing = [] if codes else [_missing(work)]
    return [_facts(work), *missing, Tabs(tuple(t for t in tabs if t.blocks))]


def _facts(work: Work) -> Findings:
    """What a kernel is, in a sentence."""
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
    """A kernel's HLO."""
    if work.node is None:
        return []
    nodes = (work.node, *(node for node in work.inside if node is not work.node))
    lines = [hlo_lines.instruction(node, str(node.owner or "")) for node in nodes]
    return [Listing("optimized", tuple(map(hlo_lines.lean, lines)))]


def _missing(work: Work) -> Findings:
    note = work.kernel.note or f"a {work.kernel.kind} has no code of its own"
    return Findings((Finding(f"{work.kernel.name}: {note}.", "unknown"),))


# What each option shows, in the order in which they stand. The verdict is about the caches
# before this look, and must not wait for a compile; the times are asked for when all is done.
_ALONE: Mapping[str, Callable[[Capture, CompileOptions], Sequence[Block]]] = {
    "why": _reported(verdict_report),
    **_costs(None),
    "memory": lambda capture, options: _memory(capture, options.checkpoint),
    "checkpoint": lambda capture, options: [] if options.memory else _memory(capture, True),
    "kernel": lambda capture, options: _kernel(capture, options.kernel, options.asm),
    "asm": _code,
    "sharding": lambda capture, options: sharding_view.blocks(capture, options.full),
    "captured": _reported(captured_report),
    "times": times_view.blocks,
    "scan": times_view.tried,
}


def _measured(run: Run) -> Table:
    """What an execution took."""
    times = (median(run.seconds), min(run.seconds), max(run.seconds))
    row = cells(len(run.seconds), *map(duration, times))
    columns = ("runs", "median", "least", "most")
    return Table("Measured", columns, (row,), run.how, volatile=True, right=(0, 1, 2, 3))
