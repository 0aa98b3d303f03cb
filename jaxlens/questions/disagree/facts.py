"""Compares a program as compiled with op by op, and cuts it down where that is wrong."""

from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.program.lines import owners, span_of
from jaxlens.program.subject import Given
from jaxlens.questions.disagree.disagreement import Disagreement


def facts(capture: Capture, write: str = "") -> Disagreement:
    """Compares a program as compiled with op by op, and cuts it down where that is wrong.

    Raises:
        OptionError: An argument is a shape without data, or the file cannot be written.
        UnavailableError: It cannot be run here.
    """
    owner = owners(capture.jaxpr.module)
    capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.disagree.measure.search import disagreement

    known = disagreement(capture, write)
    if known.reduced is None:
        return known
    paths = known.reduced.equations
    fates = Given(lambda: [capture.links.fate(path[-1]) for path in paths]).or_else([])
    fusions = tuple(dict.fromkeys(name for fate in fates for name in fate.into))
    return replace(known, fusions=fusions, spans={path: span_of(path, owner) for path in paths})
