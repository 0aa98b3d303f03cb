"""The verb that shows one function on several targets, and its document."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jaxlens.captures import Capture
from jaxlens.capturing import as_capture
from jaxlens.errors import LensError, OptionError
from jaxlens.program.sentences import called, device, listed
from jaxlens.render.document import Document
from jaxlens.viewer.panes import overview
from jaxlens.viewer.side_by_side_report import SideBySide, column, report
from jaxlens.viewer.target_links import weave_targets
from jaxlens.viewer.targets import TargetsFacts, blocks
from jaxlens.views.header import header_line, where
from jaxlens.views.jitted_calls import as_written
from jaxlens.views.view import View

Programs = Sequence[tuple[str, Capture | LensError]]
"""The name of each target, with its program or why there is none."""


def side_by_side(*programs: Any, explore: bool = False) -> View[SideBySide]:
    """Shows one function on several targets: a column of figures for each, and linked panes.

        jaxlens.side_by_side(cap, jaxlens.capture(step, params, x, target="gpu:h100"))

    Args:
        *programs: Captures, views, or paths of saved captures.
        explore: Whether the programs stand beside your lines at first, and not the kernels.

    Returns:
        An answer with `.columns`, each with `.name`, `.figures` by name and `.missing` (why a
        program did not compile).

    Raises:
        OptionError: There is no program, or one of them is no capture.
        CaptureFileError: A file holds no capture.
    """
    captures = [as_capture(program) for program in programs]
    if not captures:
        raise OptionError("side_by_side takes one capture or more: jaxlens.capture(f, x)")
    types = {(called(cap.program), *(str(x.type) for x in cap.program.inputs)) for cap in captures}
    if len(types) > 1:
        calls = [*dict.fromkeys(called(cap.program) for cap in captures)]
        raise OptionError(
            f"side_by_side shows one call on several targets, got {listed(calls, 3)}; "
            "jaxlens.compare(before, after) shows two calls"
        )
    names: dict[str, Capture] = {}
    for cap in captures:
        written = getattr(cap.driver, "target", "")  # a saved capture has the device alone
        place = written if ":" in written else device(cap.program.target)
        name = ", ".join((place, *cap.program.flags))
        count = sum(other.partition(" (")[0] == name for other in names)
        names[f"{name} ({count + 1})" if count else name] = cap
    return on_targets(list(names.items()), "explore" if explore else "compile")


def on_targets(
    programs: Sequence[tuple[str, Capture | LensError]], verb: str = "compile", full: bool = False
) -> View[SideBySide]:
    """Shows one function on several targets, with a column for each.

    Args:
        programs: The name of each target, with its program or why there is none.
        verb: "compile" or "explore".
        full: Whether nothing is left out.

    Raises:
        LensError: There is a program for none of the targets.
    """

    captures = [program for _, program in programs if isinstance(program, Capture)]
    if not captures:
        raise next(why for _, why in programs if isinstance(why, LensError))
    figures = cache(lambda: SideBySide(tuple(column(name, program) for name, program in programs)))
    return View(
        captures[0],
        lambda: _document(verb, programs, figures(), full),
        know=figures,
        tell=lambda: report(figures()),
    )


def _document(verb: str, programs: Programs, figures: SideBySide, full: bool = False) -> Document:
    """Returns the document that a verb shows of several targets."""
    missing = {one.name for one in figures.columns if one.missing}
    compiled = [
        (name, program)
        for name, program in programs
        if isinstance(program, Capture) and name not in missing
    ]
    facts = TargetsFacts(figures, [(name, overview(program)) for name, program in compiled])
    first = next(program for _, program in programs if isinstance(program, Capture))
    taken = header_line(first.program, as_written(first))
    names = f"side by side for {listed([name for name, _ in programs], 8)}"
    web = weave_targets([(name, program.links) for name, program in compiled])
    shown = tuple(blocks(facts, verb, full))
    return Document(verb, taken.replace(where(first.program.target), names), shown, web)
