"""Compares a program as compiled with op by op, and cuts it down where that is wrong."""

from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.program.lines import owners, span_of
from jaxlens.program.subject import Given
from jaxlens.questions.disagree.disagreement import Disagreement
from jaxlens.questions.disagree.report import issue


def facts(capture: Capture, write: str = "") -> Disagreement:
    """Compares a program as compiled with op by op, and cuts it down where that is wrong.

    Raises:
        OptionError: An argument is a shape without data, or the file cannot be written.
        UnavailableError: It cannot be run here.
    """
    module = capture.jaxpr.module
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.disagree.measure.search import disagreement

    found = disagreement(live)
    part = found.part
    if part is None:
        return Disagreement(found.results, why=found.why, _subject=capture)
    owner = owners(module)
    spans = {path: span_of(path, owner) for path in part.equations}
    fates = Given(lambda: [capture.links.fate(path[-1]) for path in part.equations]).or_else([])
    into = (name for fate in fates for name in fate.into)
    made = found.reproducer(write)
    known = Disagreement(
        found.results,
        part,
        "",
        found.trials,
        tuple(dict.fromkeys(into)),
        spans,
        made.code,
        written=made.path,
        _subject=capture,
    )
    return replace(known, issue=issue(known))
