"""Rows of the table: what tracing did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.questions.trace.bytecode.facts import Bytecode
    from jaxlens.questions.trace.ladder.facts import Ladder
    from jaxlens.questions.trace.tape.facts import Tracing
    from jaxlens.questions.trace.tree.facts import Depth


_LINES = (
    "nothing is timed; the lines are those that Python ran, the equations those that JAX had "
    "recorded after each"
)


def _tape() -> Lens[Tracing]:
    """What `jaxlens.tape` returns.

    Returns:
        An answer with `.steps`, `.loops` (each with `.line`, `.times`, `.equations`),
        `.branches` (`.line`, `.taken`), `.printed` and `.wrote`.

    Raises:
        UnavailableError: The capture was loaded from a file that holds no tape.
    """
    from jaxlens.questions.trace.tape.facts import facts
    from jaxlens.questions.trace.tape.report import report
    from jaxlens.questions.trace.tape.view import blocks

    return Lens(facts, report, blocks, jaxpr_web)


TAPE = Question(
    "tape",
    About(
        "What happens while JAX traces?",
        measured=_LINES,
        counted="which loops were unrolled and which branch was taken, from the text of the lines",
    ),
    _tape,
    Needs(line_trace=True),
    "jaxpr",
    "step by step through the lines as they ran while JAX traced",
    kind="tape",
    panel=7,
    python="jaxlens.tape(f, x)",
    place=137,
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
    from jaxlens.questions.trace.bytecode.facts import facts
    from jaxlens.questions.trace.bytecode.report import report
    from jaxlens.questions.trace.bytecode.view import blocks

    return Lens(facts, report, blocks, jaxpr_web)


BYTECODE = Question(
    "bytecode",
    About(
        "What is each line to Python, and what is it to JAX?",
        measured=_LINES,
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
    place=160,
)


def _tree() -> Lens[Depth]:
    """What `jaxlens.tree` returns.

    Returns:
        An answer with `.depth` (levels of operations that wait for one another), `.work`
        (operations on elements), both None where no elements were followed, `.levels` (each with
        `.operations` by primitive, `.total` and `.equations`), `.reads` (the most input elements
        that an element of the result is made of) and `.why` (why no elements were followed; ""
        where they were).
    """
    from jaxlens.questions.trace.tree.facts import facts
    from jaxlens.questions.trace.tree.report import report
    from jaxlens.questions.trace.tree.view import blocks

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
    place=170,
)


def all_rungs(capture: Capture) -> tuple[Capture, ...]:
    """Returns captures of a function under more and more of its transforms, itself first."""
    noun = "Python function, of whose transforms a ladder could be made"
    live = capture.driver.live(noun, traces=True)  # raises before JAX is imported
    from jaxlens.questions.trace.measure.rungs import rungs_of

    return rungs_of(capture, live)


def _ladder() -> Lens[Ladder]:
    """What `jaxlens.ladder` returns.

    Returns:
        An answer with `.rungs` (each with `.title`, `.equations`, `.forward`, `.backward`),
        `.equations` of each rung, and `.rules` that JAX used.

    Raises:
        UnavailableError: The function has no transform that can be undone.
    """
    from jaxlens.questions.trace.ladder.facts import facts
    from jaxlens.questions.trace.ladder.report import report
    from jaxlens.questions.trace.ladder.view import blocks, web

    return Lens(lambda cap: facts(all_rungs(cap)), report, blocks, lambda links, facts: web(facts))


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
    place=135,
)


ROWS = (
    TAPE,
    BYTECODE,
    TREE,
    LADDER,
)
