"""The documents that the verbs show of a capture, and texts as they were approved."""

import os

from jaxlens import answers
from jaxlens.questions import of_verb
from jaxlens.viewer import show
from jaxlens.viewer.panes import OPTIONS
from tests.support.paths import TEXTS


def jaxpr(capture, options=None):
    return show.verb("jaxpr", capture, options or OPTIONS["jaxpr"]()).document


def hlo(capture, **options):
    return show.verb("hlo", capture, OPTIONS["hlo"](**options)).document


def compile(capture, options=None, run=None):
    """With executions that were measured, where such are given."""
    options = options or OPTIONS["compile"]()
    if run is None:
        return show.verb("compile", capture, options).document
    asked = [
        (q, q.gathered_facts(capture, q.keywords(options)))
        for q in of_verb("compile")
        if q.is_asked(options)
    ]
    return answers.document(capture, "compile", asked, options.full, run)


def explore(capture):
    return show.verb("explore", capture, OPTIONS["explore"]()).document


def outline(figure):
    """A figure in words: each panel with its boxes and edges."""
    lines = [f"{figure.stage}, {figure.depth} open: {figure.note or 'nothing is folded'}"]
    for panel in figure.panels:
        lines += ["", f"{panel.name}: {panel.title}{' (leads on)' * panel.through}"]
        for box in panel.boxes:
            more = " ".join(box.nodes), box.line, box.hint, box.inside and f"opens {box.inside}"
            words = [box.kind, box.label, box.detail, *more]
            lines.append(f"  {box.id}: {' | '.join(filter(None, words))}")
        lines += [f"  {edge.tail} -> {edge.head} {edge.label}" for edge in panel.edges]
    return "\n".join(lines)


def approved(name, text):
    """Compares with the text of that name in `texts`; with JAXLENS_UPDATE=1 writes it there."""
    path = TEXTS / f"{name}.txt"
    if os.environ.get("JAXLENS_UPDATE"):
        path.write_text(f"{text}\n")
    assert f"{text}\n" == path.read_text(), "JAXLENS_UPDATE=1 writes the text as it is now"
