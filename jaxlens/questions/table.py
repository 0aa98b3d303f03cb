"""THE TABLE of questions.

`-h`, Tab, the verbs, the output of `%%compile`, the panel and the README's table are made from it.

Figures are of three kinds everywhere: measured on this machine, reported by XLA for its own
program, or counted and inferred by jaxlens from the program's text.

A question's function imports its lens when it is called, so that `%load_ext` imports this table
and no lens. Its docstring is the end of the verb's, whose beginning is made of the row (`ask.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxlens.ir.needs import Needs
from jaxlens.questions.about_jaxprs import (
    BYTECODE,
    LADDER,
    NAN,
    NUMERICS,
    SILENT,
    TAPE,
    TREE,
    VALUES,
)
from jaxlens.questions.question import About, Lens, Option, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.ir.facts import Verdict
    from jaxlens.lenses.constants.facts import Captured
    from jaxlens.lenses.cost.roofline import CostFacts
    from jaxlens.lenses.fusion.facts import Fusions
    from jaxlens.lenses.memory.fits import FitFacts
    from jaxlens.lenses.memory.report import MemoryFacts
    from jaxlens.lenses.sharding.facts import Sharding
    from jaxlens.lenses.times.facts import Times
    from jaxlens.views.verbs.compile import KernelFacts

_COMPILED = Needs(compiled=True)


def _why() -> Lens[Verdict]:
    from jaxlens.lenses.recompile.call_key import verdict_report

    return Lens(lambda capture: capture.verdict, verdict_report)


WHY = Question(
    "why",
    About(
        "Would this very call hit JAX's caches, and if not, what is new in it?",
        counted="the keys that JAX holds, compared part by part; nothing is traced",
    ),
    _why,
    Needs(verdict=True),
    "compile",
    "whether this call would hit JAX's caches, and what is new in it",
)


def _cost() -> Lens[CostFacts]:
    """What `jaxlens.cost` returns.

    Options:
        roofline: The device whose limits are compared: "here" measures this one, a name such as
            "h100" takes published figures.
        run: How often the program is executed to measure each kernel; 0 executes nothing.

    Returns:
        An answer with `.flops`, `.bytes` (of arguments and results, once each), `.transcendentals`,
        `.by_line` and `.by_node` (flops), `.loops`; `.kernels` (each with `.flops`, `.bytes`,
        `.intensity`, `.lines`), `.limits`, `.points` (each with `.bound` and the best possible
        `.seconds`) and `.seconds` (measured, by instruction).

    Raises:
        OptionError: `roofline` names a device with no published limits.
    """
    from jaxlens.lenses.cost.roofline import facts, report
    from jaxlens.views.links import weave_small
    from jaxlens.views.questions.cost import blocks

    return Lens(
        facts, report, blocks, lambda links, facts: weave_small(links, facts.both_counts().subject)
    )


COST = Question(
    "cost",
    About(
        "Where do flops and bytes go?",
        measured="with --run N: seconds of each kernel, from the profiler, which slows small ones",
        xla="flops and bytes of the optimised program, each loop body once",
        counted="flops by equation, line and kernel, a loop's body as often as it runs, a Pallas "
        "kernel's for each point of its grid, a shard_map's for each device; bytes of main "
        "memory that each kernel reads and writes if no cache helps; bytes of arguments and "
        "results, the least that can move",
    ),
    _cost,
    _COMPILED,
    "compile",
    "flops and bytes by line and kernel, loops counted; with --run N seconds of each",
    options=(
        Option(
            "roofline",
            "",
            "limits of",
            "the same, and the best possible time: of this device, measured, or --roofline=h100",
            "[DEVICE]",
            "device",
            About(
                "Which limit of the device does each kernel run into?",
                measured="with --roofline alone: flops per second of a matrix product and bytes "
                "per second of a pass over memory, once per process, on this device",
                counted="flops and bytes of each kernel; the best possible seconds are an "
                "estimate: flops or bytes over the device's limit, measured, or published by its "
                "maker (--roofline=h100)",
            ),
        ),
        Option("run", 0, "execute it so often, and measure"),
    ),
    panel=5,
    python="jaxlens.cost(f, x).flops",
)


def _memory() -> Lens[MemoryFacts]:
    """What `jaxlens.memory` returns.

    Options:
        checkpoint: Whether to compile the program under `jax.checkpoint` too, in up to six ways.

    Returns:
        An answer in bytes of one device's main memory: `.peak` (the most in use at once, in XLA's
        order of instructions; None if XLA gives no live ranges), `.reserved` (taken from start to
        end), `.arguments`, `.outputs`, `.temporaries`, `.at_peak` (each buffer with `.line`,
        `.bytes`, `.saved`), `.by_line`, `.residuals`, `.donations` and `.tried`. `.spaces` has the
        device's other memories, such as a TPU's VMEM (`.name`, `.peak`, `.reserved`, `.at_peak`).

    Raises:
        UnavailableError: The backend gives no sizes, or `checkpoint` cannot be tried.
    """
    from jaxlens.lenses.memory.checkpoint import trials
    from jaxlens.lenses.memory.report import facts, report
    from jaxlens.views.links import weave_small
    from jaxlens.views.questions.memory import blocks

    def with_trials(capture: Capture, checkpoint: bool = False) -> MemoryFacts:
        return facts(capture, trials(capture) if checkpoint else ())

    return Lens(
        with_trials, report, blocks, lambda links, facts: weave_small(links, facts.subject())
    )


MEMORY = Question(
    "memory",
    About(
        "Which line owns the memory peak?",
        measured="with --checkpoint: the program under jax.checkpoint, compiled anew, not run",
        xla="sizes, places and live ranges of all buffers (its buffer assignment), per device",
        counted="what is in use at once: arguments and constants all the time, results once they "
        "are written, temporaries while they are needed; the line that made each, followed back "
        "through loops and copies; each memory of the device, such as a TPU's VMEM, by itself; "
        "what autodiff saves, from the jaxpr",
    ),
    _memory,
    _COMPILED,
    "compile",
    "which line owns the memory peak, what autodiff saves, donation",
    options=(
        Option(
            "checkpoint",
            False,
            "try jax.checkpoint (compiles up to six programs more)",
            "the same, and what jax.checkpoint would change, by trying",
            about=About(
                "What would jax.checkpoint change?",
                measured="the program with what it differentiates under jax.checkpoint, in up to "
                "five ways, each compiled anew and not run",
                counted="peak, saved bytes and flops of each, counted like those of the program "
                "itself",
            ),
        ),
    ),
    panel=4,
    python="jaxlens.memory(f, x).peak",
)


def _fits() -> Lens[FitFacts]:
    from jaxlens.lenses.memory.fits import facts, report

    return Lens(facts, report)


FITS = Question(
    "fits",
    About(
        "Will it fit a device, and what would make it?",
        measured="where it does not fit: the program with inputs donated and under "
        "jax.checkpoint, each compiled anew and not run",
        xla="what the program reserves from start to end (its buffer assignment), per device",
        counted="the device's memory is its maker's figure, and of a GPU the share that JAX takes "
        "by default",
    ),
    _fits,
    verb="compile",
    help='whether it fits a device (--fits h100, --fits "16 GB"), and what would make it',
    metavar="DEVICE",
    values="device",
)
"""It needs no compile beforehand: that XLA refuses to compile is an answer to it."""


def _kernel() -> Lens[KernelFacts]:
    from jaxlens.lenses.program.kernels import works
    from jaxlens.lenses.subject import subject_of
    from jaxlens.views.verbs.compile import KernelFacts, kernel_blocks

    def facts(capture: Capture, kernel: str = "", asm: bool = False) -> KernelFacts:
        subject = subject_of(capture, "optimized", "llvm", "asm", "kernels")
        return KernelFacts(subject, works(subject) if kernel else (), kernel, asm)

    return Lens(facts, blocks=kernel_blocks)


KERNEL = Question(
    "kernel",
    About("What does one kernel compute, and how?"),
    _kernel,
    _COMPILED,
    "compile",
    "one kernel: what it fused, its LLVM IR",
    "NAME",
    "kernel",
    (
        Option(
            "asm",
            False,
            help="the machine's instructions, of every kernel or of --kernel NAME",
            about=About("Which instructions does the machine run?"),
        ),
    ),
)


def _sharding() -> Lens[Sharding]:
    """What `jaxlens.sharding` returns.

    Returns:
        An answer with `.devices`, `.axes` of the mesh, `.inputs`, `.outputs` and `.values` (each
        with `.tiling`, `.spec` and `.piece`), `.collectives` (each with `.opcode`, `.bytes`,
        `.groups`, `.over`, `.trips`, `.lines`), and `.sent` (bytes that a device sends in one run).
    """
    from jaxlens.lenses.sharding.facts import facts
    from jaxlens.lenses.sharding.report import report
    from jaxlens.views.links import weave_small
    from jaxlens.views.questions.sharding import blocks

    return Lens(facts, report, blocks, lambda links, facts: weave_small(links, facts.subject()))


def _of_several_devices(capture: Capture) -> Needs:
    """Returns what sharding needs: every pass on several devices, no compile on one."""
    from jaxlens.lenses.sharding.facts import devices

    return Needs(passes="all") if devices(capture) > 1 else Needs()


SHARDING = Question(
    "sharding",
    About(
        "Which device holds what, and what travels between them?",
        xla="shardings of all values, as its partitioner was given them; collectives and their "
        "groups in the program that one device runs",
        counted="bytes of each piece and collective, times as often as its loops run; what a "
        "device sends is an estimate, as if each group were a ring",
    ),
    _sharding,
    _of_several_devices,
    "compile",
    "which device holds what, and what travels between them",
    panel=8,
    python="jaxlens.sharding(f, x)",
)


def _captured(compiled: bool = True) -> Lens[Captured]:
    """What `jaxlens.captured` returns.

    Returns:
        An answer with `.constants` (each with `.name`, `.bytes`, `.held`, `.holder`, `.span`,
        `.reads`), `.bytes`, `.stages` (number and bytes of constants by stage), `.folded` and
        `.folding` (seconds; None without a profile). It takes a compile that dumps all passes;
        `%jaxpr --captured` takes none.
    """
    from jaxlens.lenses.constants.facts import facts, report

    return Lens(partial(facts, compiled=compiled), report)


CAPTURED = Question(
    "captured",
    About(
        "What is captured?",
        measured="seconds of constant folding, where the compile was profiled (--times)",
        counted="arrays that the function closes over, their bytes, and who holds them, by "
        "identity; constants in each stage; what became a constant between StableHLO and HLO, and "
        "between the dumps before and after constant folding; of arrays of over 256 MB that is "
        "not known",
    ),
    _captured,
    Needs(passes="all"),
    "compile",
    "arrays that it closes over, and what XLA folded",
    panel=9,
    python="jaxlens.captured(f, x)",
)


CAPTURED_BY_TRACE = replace(
    CAPTURED,
    lens=partial(_captured, compiled=False),
    needs=Needs(),
    verb="jaxpr",
    help="arrays that it closes over, with bytes and the line",
    panel=0,
    python="",
)


def _times() -> Lens[Times]:
    """What `jaxlens.times` returns.

    Options:
        scan: Whether to compile two more programs, to try `lax.scan` in place of unrolled loops.
        run: Whether both of these are run on random inputs and compared.

    Returns:
        An answer with `.stages` (seconds), `.compile` (`.groups`, `.passes`, `.kernels` in
        seconds; None without a profile), `.equations` (`.total`, `.flame`), `.by_line`, `.loops`
        (each with `.line`, `.count`, `.block`, `.equations`, `.rolled`) and `.trial`.
    """
    from jaxlens.lenses.times.facts import facts
    from jaxlens.lenses.times.report import report
    from jaxlens.views.questions.times import blocks

    return Lens(facts, report, blocks)


TIMES = Question(
    "times",
    About(
        "Where does compile time go?",
        measured="seconds of each step, once, on this machine; within the compile by XLA's own "
        "profiler, for which it is compiled again if it was before; of LLVM over each kernel by "
        "the times of its dumps",
        counted="equations by line and call path, every call written out; a loop is called "
        "unrolled where four or more blocks of equations do the same and each reads the one "
        "before alike",
    ),
    _times,
    Needs(profile=True),
    "compile",
    "seconds by stage, pass and kernel; equations by line; loops",
    options=(
        Option(
            "scan",
            False,
            "try lax.scan (compiles two programs more)",
            "the same, and what lax.scan would change, by trying",
            about=About(
                "What would lax.scan in place of unrolled loops change?",
                measured="the program as it is and with scans made of its own equations, both "
                "traced, lowered and compiled; with --run both are run on random inputs and "
                "compared",
            ),
        ),
        Option("run", False, "and run both"),
    ),
    panel=2,
    python="jaxlens.times(f, x)",
)


def _fusion() -> Lens[Fusions]:
    """What `jaxlens.fusion` returns.

    Returns:
        An answer with `.saved` (bytes of main memory not written and not read again, in one run),
        `.fusions` (each with `.id`, `.operations`, `.saved`, `.lines`, `.estimate`), `.boundaries`
        (values still passed through memory, each with `.why`), `.left`, `.refused` (XLA's reasons,
        on GPUs) and `.change`.

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    from jaxlens.lenses.fusion.facts import facts
    from jaxlens.lenses.fusion.report import report
    from jaxlens.lenses.program.fusion_change import GLANCE_LIMIT, TRACE_LIMIT
    from jaxlens.views.questions.fusion import blocks, web

    def limited(capture: Capture, full: bool = False) -> Fusions:
        return facts(capture, TRACE_LIMIT if full else GLANCE_LIMIT)

    return Lens(limited, report, blocks, web)


FUSION = Question(
    "fusion",
    About(
        "What was fused, and why not the rest?",
        xla="its reasons to refuse and its cost model's microseconds, on GPUs alone",
        counted="bytes that the kernels move, and those that a fusion's operations would move one "
        "by one, less what it moves as one; what is computed again; who reads what",
    ),
    _fusion,
    Needs(passes="fusing"),
    "hlo",
    "the program before and after fusion, alone",
    options=(Option("full", False),),
    panel=3,
    python="jaxlens.fusion(f, x)",
)


AGAINST: Question[Any] = Question(
    "against",
    About(
        "What changed since then?",
        measured="seconds of each step, once each",
        xla="memory and bytes accessed of both programs",
        counted="which equations and instructions are the same: by what they compute, then by the "
        "text of their line; flops of the equations",
    ),
    verb="compile",
    help="what changed since what -o NAME stored",
    metavar="NAME",
    values="capture",
    panel=10,
    python="jaxlens.compare(a, b)`, `receipt(f, x)",
)

WITHOUT: Question[Any] = Question(
    "without",
    About(
        "What does a pass or a flag do for this program?",
        measured="with --run N: seconds of both programs, turn by turn in a process of their own",
        xla="memory and bytes accessed of both programs",
        counted="which instructions are the same; the second program is compiled by XLA all the "
        "same",
    ),
    verb="compile",
    help="what changes when a pass is left out (fusion) or a flag set (xla_flag=value); compiles "
    "in another process",
    metavar="NAME",
    values="pass",
    python='jaxlens.without(cap, "fusion")',
)


KEY: Question[Any] = Question(
    "key",
    About(
        "What is a call looked up by in JAX's caches, and would it be found?",
        counted="the key made as JAX makes it, and compared with those that it holds; nothing is "
        "traced",
    ),
    panel=1,
)

RECOMPILES: Question[Any] = Question(
    "recompiles",
    About(
        "Why did it recompile?",
        measured="seconds of each trace, lowering and compile, by JAX; a cure is tried where it "
        "can be without running your program: its key is looked up, it is traced, or the programs "
        "that were made are compared; what was not tried says so",
        counted="each call's key, compared part by part with the nearest earlier one; of the "
        "persistent cache's key the parts whose hashes differ, by the hashes that JAX logs",
    ),
    python="jaxlens.recompiles()`, `watch(f)`, `assert_compiles(n)`, `key(f, x)",
)

TIMELINE: Question[Any] = Question(
    "timeline",
    About(
        "Who waits for whom, at which line?",
        measured="dispatches, waits and executions of one run, by JAX's profiler; the line of "
        "each by the clock; a wait is a time in which Python stood still, so a value that is "
        "read when it is ready is none",
        counted="which program a wait was for (it ended then), what makes a line wait (by its "
        "text), and how many programs were dispatched without a wait between them",
    ),
    python="jaxlens.timeline(f, x)",
)

ARRAYS: Question[Any] = Question(
    "arrays",
    About(
        "What lives on each device, and what grew?",
        measured="the arrays that live now (`jax.live_arrays`), and the line that made each, by "
        "the stack that JAX keeps with it; nothing is computed or copied",
        counted="bytes by shape, dtype and sharding; the names by a search through the variables, "
        "their containers, attributes and closures, and the last error's traceback; what keeps the "
        "others alive by Python's garbage collector; arrays of one buffer count once",
    ),
    python="jaxlens.arrays()",
)

QUESTIONS: tuple[Question[Any], ...] = (
    WHY,
    COST,
    MEMORY,
    FITS,
    KERNEL,
    SHARDING,
    CAPTURED,
    TIMES,
    FUSION,
    WITHOUT,
    replace(WITHOUT, verb="hlo", python=""),
    AGAINST,
    replace(AGAINST, verb="jaxpr", panel=0, python=""),
    CAPTURED_BY_TRACE,
    TAPE,
    BYTECODE,
    TREE,
    LADDER,
    NAN,
    NUMERICS,
    SILENT,
    VALUES,
    KEY,
    RECOMPILES,
    TIMELINE,
    ARRAYS,
)
"""All questions; those of one magic in the order of its help and of its output."""


def of_verb(verb: str) -> tuple[Question[Any], ...]:
    """Returns the questions that a magic shows."""
    return tuple(question for question in QUESTIONS if question.verb == verb)


def about(name: str) -> About | None:
    """Returns how the answer to a question, or to an option that asks one, is known."""
    for question in QUESTIONS:
        if question.name == name:
            return question.about
        for option in question.options:
            if option.name == name and option.about:
                return option.about
    return None
