"""Rows of the table: questions about a jaxpr that need no compile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.questions.question import About, Lens, Option, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.lenses.depth.facts import Depth
    from jaxlens.lenses.nonfinite.facts import FirstNan
    from jaxlens.lenses.numerics.facts import Numerics
    from jaxlens.lenses.silent.facts import Silent
    from jaxlens.lenses.tracing.bytecode import Bytecode
    from jaxlens.lenses.tracing.ladder import Ladder
    from jaxlens.lenses.tracing.line_trace import Tracing
    from jaxlens.lenses.values.facts import Values


def _tape() -> Lens[Tracing]:
    """What `jaxlens.tape` returns.

    Returns:
        An answer with `.steps`, `.loops` (each with `.line`, `.times`, `.equations`),
        `.branches` (`.line`, `.taken`), `.printed` and `.wrote`.

    Raises:
        UnavailableError: The capture was loaded from a file that holds no tape.
    """
    from jaxlens.lenses.tracing.line_trace import facts, report
    from jaxlens.views.questions.line_trace import blocks

    return Lens(facts, report, blocks, jaxpr_web)


TAPE = Question(
    "tape",
    About(
        "What happens while JAX traces?",
        measured="nothing is timed; the lines are those that Python ran, the equations those that "
        "JAX had recorded after each",
        counted="which loops were unrolled and which branch was taken, from the text of the lines",
    ),
    _tape,
    Needs(line_trace=True),
    "jaxpr",
    "step by step through the lines as they ran while JAX traced",
    kind="tape",
    panel=7,
    python="jaxlens.tape(f, x)",
)


def _bytecode() -> Lens[Bytecode]:
    """What `jaxlens.bytecode` returns.

    Returns:
        An answer with `.functions` (each with `.name` and `.lines`) and `.lines` of all of them:
        `.line`, `.text`, `.ran`, `.instructions` (each with `.name` and `.argument`),
        `.equations` and `.inside` (equations recorded by functions that the line called).

    Raises:
        UnavailableError: The capture was loaded from a file that holds no bytecode.
    """
    from jaxlens.lenses.tracing.bytecode import facts, report
    from jaxlens.views.questions.bytecode import blocks

    return Lens(facts, report, blocks, jaxpr_web)


BYTECODE = Question(
    "bytecode",
    About(
        "What is each line to Python, and what is it to JAX?",
        measured="nothing is timed; the lines are those that Python ran, the equations those that "
        "JAX had recorded after each",
        counted="the instructions of each line, by Python's own `dis`; they differ between "
        "versions of Python",
    ),
    _bytecode,
    Needs(line_trace=True),
    "jaxpr",
    "Python's bytecode of each line beside the equations that it recorded",
    kind="bytecode",
    panel=12,
    python="jaxlens.bytecode(f, x)",
)


def _tree() -> Lens[Depth]:
    """What `jaxlens.tree` returns.

    Returns:
        An answer with `.depth` (levels of operations that wait for one another), `.work`
        (operations on elements), `.levels` (each with `.operations` by primitive, `.total` and
        `.equations`), `.reads` (the most input elements that an element of the result is made of)
        and `.why` (why no elements were followed; "" where they were).
    """
    from jaxlens.lenses.depth.facts import facts
    from jaxlens.lenses.depth.report import report
    from jaxlens.views.questions.tree import blocks

    return Lens(facts, report, blocks, jaxpr_web)


TREE = Question(
    "tree",
    About(
        "How many operations must wait for one another?",
        counted="operations on elements, from the jaxpr: an element that is only moved (slice, "
        "pad, concatenate, reshape) is the same element; loops step by step; a sum is one "
        "operation, as XLA chooses its order",
    ),
    _tree,
    verb="jaxpr",
    help="operations on elements as a tree: levels that wait for one another",
    kind="tree",
    panel=13,
    python="jaxlens.tree(f, x).depth",
)


def _ladder() -> Lens[Ladder]:
    from jaxlens.lenses.tracing.ladder import facts, report
    from jaxlens.views.questions.ladder import blocks, web

    def of_rungs(capture: Capture, rungs: Sequence[Capture] = ()) -> Ladder:
        return facts(rungs or capture.rungs())

    return Lens(of_rungs, report, blocks, lambda links, facts: web(facts))


LADDER = Question(
    "ladder",
    About(
        "What did each transform make of the program?",
        counted="equations by rung and pass; an equation belongs to those below it with the same "
        "Python text, and by the rule that makes such equations",
    ),
    _ladder,
    verb="jaxpr",
    help="what each transform made of it: f, grad(f), vmap(grad(f)), ...",
    kind="ladder",
    panel=6,
    python="jaxlens.ladder(f, x)",
)


def _nan() -> Lens[FirstNan]:
    """What `jaxlens.first_nan` returns.

    Returns:
        An answer with `.found`, `.kind` ("nan" or "inf"), `.opcode`, `.span` (file, line, columns),
        `.iteration`, `.sentence`, `.cure`, `.maker` (with `.values`, `.index`, `.device`),
        `.infinity` (what made the infinity that the NaN came of), `.arguments` and `.trial`.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.lenses.nonfinite.facts import facts
    from jaxlens.lenses.nonfinite.report import report
    from jaxlens.views.questions.nonfinite import blocks

    return Lens(facts, report, blocks, jaxpr_web)


NAN = Question(
    "nan",
    About(
        "Where does the first NaN come from?",
        measured="NaN and infinities in the results of each equation, in a run of the compiled "
        "program with these tests in it, in loops by iteration; what made it is run once more, "
        "and a cure where one is tried; donated arguments stay valid",
        counted="the way back from a result through equations whose operands had it",
    ),
    _nan,
    verb="jaxpr",
    help="runs it, and says which equation made the first NaN or infinity of a result, and why",
    kind="nan",
    python="jaxlens.first_nan(f, x)",
)


def _numerics() -> Lens[Numerics]:
    """What `jaxlens.numerics` returns.

    Returns:
        An answer with `.found`, `.losses` (each with `.kind`, `.opcode`, `.span`), `.promotions`,
        `.equations` (each with `.own` and `.total`, in ulps), `.difference` (compiled against op
        by op), and `.run` (`.results`, `.dots`, `.differs`, and `.differences`: of each result of
        any type, with `.unequal` and `.ulps`).

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.lenses.numerics.facts import facts
    from jaxlens.lenses.numerics.report import report
    from jaxlens.views.questions.numerics import blocks

    return Lens(facts, report, blocks, jaxpr_web)


NUMERICS = Question(
    "numerics",
    About(
        "Where are digits lost, and why does jit differ from eager?",
        measured="the error of each equation, in a run op by op with float64 beside it; the "
        "results of every type, as compiled and op by op, bit by bit; products at "
        "precision=HIGHEST; donated arguments stay valid",
        counted="values that an operation silently converts to a wider type, from the jaxpr",
    ),
    _numerics,
    verb="jaxpr",
    help="runs it op by op, in float64 and compiled: which line loses digits",
    kind="numerics",
    python="jaxlens.numerics(f, x)",
)


def _silent() -> Lens[Silent]:
    """What `jaxlens.silent` returns.

    Returns:
        An answer with `.found` and `.faults`, each with `.kind` ("key", "index", "gradient",
        "unread", "order"), `.sentence`, `.line`, `.span`, `.spans`, `.name`, and for an index
        `.index`, `.size` and `.iterations`.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`, or its arrays have been freed.
    """
    from jaxlens.lenses.silent.facts import facts
    from jaxlens.lenses.silent.report import report
    from jaxlens.views.questions.silent import blocks

    return Lens(facts, report, blocks, jaxpr_web)


SILENT = Question(
    "silent",
    About(
        "What does JAX do without a word: keys used twice, clamped indices, zero gradients?",
        measured="indices out of bounds, in one run of the program; donated arguments stay valid",
        counted="keys that are used twice, arguments that no result depends on or that have no "
        "gradient, and sums in any order, from the jaxpr",
    ),
    _silent,
    verb="jaxpr",
    help="keys used twice, indices out of bounds (runs it), arguments without gradient",
    kind="silent",
    python="jaxlens.silent(f, x)",
)


def _values() -> Lens[Values]:
    """What `jaxlens.values` returns.

    Returns:
        An answer with `.values` (each with `.id`, `.opcode`, `.span`, `.type`, `.exponents` and
        `.statistics`: `.least`, `.most`, `.mean`, `.std`, `.zeros`, `.nan`, `.inf`, `.subnormals`,
        `.iterations`), `.of("e12")`, `.nonfinite` and `.array` (of `at`).

    Raises:
        OptionError: An argument is a shape without data, or `at` is no equation that was executed.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.lenses.values.facts import facts
    from jaxlens.lenses.values.report import report
    from jaxlens.views.questions.values import blocks

    return Lens(facts, report, blocks, jaxpr_web)


VALUES = Question(
    "values",
    About(
        "What do the values hold: how large, how many zeros, NaN, subnormals?",
        measured="range, mean, zeros, NaN, infinities and subnormals of each float, in one run of "
        "the program, compiled in pieces with these measurements in it, in loops over all "
        "iterations; with --at e12 once more, with the array of that equation; donated arguments "
        "stay valid",
    ),
    _values,
    verb="jaxpr",
    help="runs it, and says what the floats of each line and equation hold",
    options=(
        Option(
            "at",
            "",
            "array of equation",
            "the same, and the array of one equation, drawn; in a loop that of the last iteration",
            "EQUATION",
            about=About(
                "What is in the array of one equation?",
                measured="its elements, in a run of the program; in a loop those of the last "
                "iteration",
            ),
        ),
    ),
    kind="values",
    python="jaxlens.values(f, x)",
)
