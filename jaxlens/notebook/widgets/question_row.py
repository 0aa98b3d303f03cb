"""A row of the panel: a question that opens its answer, and the answer in one sentence."""

from importlib.resources import files

import anywidget
import traitlets

from jaxlens.render.text.document_text import known
from jaxlens.report import Finding


class QuestionRow(anywidget.AnyWidget):
    """A question as a button, with a sentence below it.

    Attributes:
        question: The question.
        expanded: Whether its answer is shown below; both sides can set it.
        sentence: Its answer in a sentence, code between backticks; "" while there is none.
        known: How that is known, in a word.
    """

    _esm = files("jaxlens.notebook").joinpath("question_row.js").read_text("utf-8")
    _css = files("jaxlens.notebook").joinpath("question_row.css").read_text("utf-8")
    question = traitlets.Unicode().tag(sync=True)
    expanded = traitlets.Bool(False).tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    known = traitlets.Unicode().tag(sync=True)

    def tell(self, finding: Finding) -> None:
        """Shows a finding as the answer."""
        self.known = known(finding)
        self.sentence = finding.measured
