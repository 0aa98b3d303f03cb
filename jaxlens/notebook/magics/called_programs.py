"""The output if the last line has no call to capture: the programs that the cell called."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from jaxlens.errors import CellError, LensError, UnavailableError
from jaxlens.ir.cell_calls import CalledProgram
from jaxlens.notebook.magics.magic_line import MagicLine
from jaxlens.render.document import Block, Findings
from jaxlens.report import Finding
from jaxlens.viewer.called_programs_report import Row, document, nothing

if TYPE_CHECKING:
    from jaxlens.captures import Capture  # not imported by %load_ext
    from jaxlens.views.view import View

_MOST = 6  # programs that are traced to find the largest
_INPUTS = 4


def answer(
    magic: MagicLine,
    programs: Sequence[CalledProgram],
    name: str,
    error: Exception | None,
    spared: bool,
    hint: str,
) -> "View[Any]":
    """Returns a view of the largest program that a cell called, or of one sentence.

    Args:
        magic: The magic's parsed line.
        programs: The programs that the cell called.
        name: The call that could not be captured; "" if there is none.
        error: The error of its capture; None if there is none.
        spared: Whether that call was not made either, because it donates.
        hint: A sentence about the cell's last line, shown if nothing was computed.

    Raises:
        CellError: With `--core`, which shows no program that JAX made alone.
    """
    from jaxlens import api
    from jaxlens.views.view import View

    if magic.take.core:  # what ran is JAX's alone
        raise CellError(
            "--core looks at a call of a function, or at an expression, at the end of the cell"
        )
    why = _why(name, error)
    if spared:
        sentence = f"{name} was not run, because it donates its arguments, and nothing is shown."
        return View(None, lambda: nothing(magic.verb, why, sentence))
    own = [program for program in programs if program.own]
    if len(why) > 1 and not own:  # the failure is explained, and JAX's operations explain nothing
        sentence = f"{name} cannot be traced. The cell ran as written, op by op."
        return View(None, lambda: nothing(magic.verb, why, sentence))
    for capture, ordered in _largest(magic, own or programs):
        with suppress(Exception):  # the next largest is shown
            view: View[Any] = getattr(api, magic.verb)(capture, **magic.show).compute()
            rows = [Row(p, _inputs(c), _line(magic, p)) for p, c in ordered]
            return View(capture, partial(document, why, rows, view.document))
    if programs:
        sentence = f"Of the {len(programs)} programs that the cell called none could be shown."
    elif isinstance(error, UnavailableError):
        sentence = "The cell ran as written, and nothing is shown."
    else:
        sentence = f"Nothing was computed with JAX, and nothing is shown: {hint}."
    return View(None, lambda: nothing(magic.verb, why, sentence))


def _why(name: str, error: Exception | None) -> tuple[Block, ...]:
    """Returns blocks that say why the call in the last line was not captured."""
    import jaxlens

    if error is None:
        return ()

    explained = jaxlens.explain(error)
    if explained is not None:
        first = Findings((Finding(f"{explained.document.taken}.", "traced"),))
        return (first, *explained.document.blocks)
    if isinstance(error, LensError):
        reason = str(error)
    else:
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        place = _own_place(error)
        reason += f" at {place}, a fault of jaxlens" if place else ""
    return (Findings((Finding(f"{name} could not be looked at: {reason}.", "unknown"),)),)


def _own_place(error: Exception) -> str:
    """Returns "file:line" of a bug in jaxlens; "" for errors of the user's code, JAX or Python."""
    from jaxlens.ir.spans import describe

    place = ""
    for frame, line in walk_tb(error.__traceback__):
        file = describe(frame.f_code.co_filename).name
        place = f"{file}:{line}" if file.startswith("jaxlens/") else ""
    return place


def _largest(
    magic: MagicLine, programs: Sequence[CalledProgram]
) -> "list[tuple[Capture, list[tuple[CalledProgram, Capture]]]]":
    """Returns each capture with all programs, itself first; the one with most eqns comes first."""
    largest = sorted(programs, key=lambda program: program.size, reverse=True)[:_MOST]
    traced = ((program, _traced(magic, program)) for program in largest)
    ordered = [(program, capture) for program, capture in traced if capture is not None]
    ordered.sort(key=lambda pair: sum(1 for _ in pair[1].jaxpr.module.nodes()), reverse=True)
    return [
        (capture, [ordered[i], *ordered[:i], *ordered[i + 1 :]])
        for i, (_, capture) in enumerate(ordered)
    ]


def _traced(magic: MagicLine, program: CalledProgram) -> "Capture | None":
    """Captures a program on its abstract arguments, else from the cell's trace in JAX's caches."""
    from jaxlens import api
    from jaxlens.listen.cell_calls import traced_before

    target = "".join(magic.take.target[:1])
    ways: list[Callable[[], Capture | None]] = [
        lambda: api.take(
            program.function, program.args, program.kwargs, name=program.name, target=target
        ),
        lambda: None if target else traced_before(program),
    ]
    for way in ways:
        with suppress(Exception):  # what cannot be traced is not shown
            capture = way()
            if capture is not None and capture.jaxpr:  # traced here, where an error is caught
                return capture
    return None


def _inputs(capture: "Capture") -> str:
    inputs = [f"{i.name} {i.type}" for i in capture.program.inputs]
    rest = f", {len(inputs) - _INPUTS} more" if len(inputs) > _INPUTS else ""
    return ", ".join(inputs[:_INPUTS]) + rest


def _line(magic: MagicLine, program: CalledProgram) -> str:
    """Returns the magic line that shows a program; "" if the names in it are not the notebook's."""
    site = program.site
    return f"%{magic.verb} {site.text}" if site.top and site.text else ""
