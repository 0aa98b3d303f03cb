"""Builds the document of one function on several targets, side by side."""

from collections.abc import Sequence

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.program.sentences import listed
from jaxlens.questions.compare.side_by_side import SideBySide, column
from jaxlens.render.document import Document
from jaxlens.viewer.panes import overview
from jaxlens.viewer.target_links import weave_targets
from jaxlens.viewer.targets import TargetsFacts, blocks
from jaxlens.views.header import header_line, where
from jaxlens.views.jitted_calls import as_written

Programs = Sequence[tuple[str, Capture | LensError]]
"""The name of each target, with its program or why there is none."""


def side_by_side(programs: Programs) -> SideBySide:
    """Compiles the programs one after another, and returns their figures."""
    return SideBySide(tuple(column(name, program) for name, program in programs))


def document(verb: str, programs: Programs, figures: SideBySide, full: bool = False) -> Document:
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
