"""A widget that lists the questions about one program, with the answer to each."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from html import escape
from operator import or_
from typing import Any

import ipywidgets as widgets

from jaxlens.captures import Capture
from jaxlens.capturing import capture
from jaxlens.errors import LensError, OptionError, nearest
from jaxlens.ir.needs import Needs
from jaxlens.notebook.widgets.explorer import Explorer
from jaxlens.notebook.widgets.question_row import QuestionRow
from jaxlens.notebook.widgets.questions import (
    QUESTIONS,
    TRACING,
    OptionValues,
    answer,
    field,
    options,
)
from jaxlens.notebook.widgets.saved_answer import Kept
from jaxlens.render.document import Document, TableBlock
from jaxlens.render.text.document_text import known
from jaxlens.report import Finding, Table, cells
from jaxlens.views.answer import Answer
from jaxlens.views.header import header_line
from jaxlens.views.view import View

_UNASKED = "Nothing was asked of it yet."


class Lenses(Kept, widgets.VBox):
    """A list of questions about one program, each with its answer in a sentence, and in full below.

        jaxlens.Lenses(step, params, x)

    Nothing is traced or compiled until a question is opened, or all are answered by the button.
    One compile then serves all questions. Nothing is executed or measured on the device unless
    that option is switched on.

    Args:
        f: A function, or a Capture.
        *args: Its arguments, arrays or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Attributes:
        capture: The program.
        shown: The answer that is open; None while all are closed.
        sentences: The answers so far in a sentence each, by the name of the question.
    """

    _nothing = " ".join(
        (_UNASKED, "It answers:", *(question.about.sentence for question in QUESTIONS.values()))
    )

    def __init__(self, f: Callable[..., Any] | Capture, /, *args: Any, **kwargs: Any) -> None:
        self.call: Any = f, args, kwargs
        self.capture = f if isinstance(f, Capture) else capture(f, *args, **kwargs)
        self.shown: Answer[Any] | None = None
        self.sentences: dict[str, Finding] = {}
        self._answers: dict[tuple[Any, ...], Answer[Any]] = {}
        self._fields: dict[str, Any] = {}
        self._open = ""
        self._inputs = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self._about = widgets.HTML()
        self._room = OutputArea()
        self._panel = widgets.VBox([self._inputs, self._about, self._room])
        self._rows = {name: QuestionRow(question=q.about.sentence) for name, q in QUESTIONS.items()}
        self._places = {name: widgets.VBox() for name in QUESTIONS}
        for name, row in self._rows.items():
            row.observe(partial(self._toggled, name), "expanded")
        everything = widgets.Button(description="answer all (one compile)")
        everything.layout.width = "max-content"
        everything.on_click(lambda _: self.answer_all())
        self._status = widgets.HTML(_UNASKED)
        head = widgets.HBox([everything, self._status])
        rows = (part for name in QUESTIONS for part in (self._rows[name], self._places[name]))
        super().__init__([head, *rows])

    def ask(self, question: str, **told: Any) -> None:
        """Opens a question by its name, with its options: `ask("memory", checkpoint=True)`.

        Raises:
            OptionError: There is no such question, or it has no such option.
        """
        if question not in QUESTIONS:
            raise OptionError(f"no question {question!r}; {nearest(question, list(QUESTIONS))}")
        names = [option.name for option in options(QUESTIONS[question])]
        for name in told:
            if name not in names:
                hint = nearest(name, names) if names else "it is told nothing"
                raise OptionError(f"{question} has no {name!r}; {hint}")
        self._rows[question].expanded = True
        for name, value in told.items():
            self._fields[name].value = value

    def answer_all(self) -> None:
        """Answers every question in a sentence, with one compile and a trace of its lines."""
        self._compile()
        self._tell(everything=True)

    def _toggled(self, name: str, change: Any) -> None:
        """Opens a question, with its options at their defaults, in the place of another one."""
        if not change.new:
            if name == self._open:
                self._close()
            return
        if self._open:
            self._rows[self._open].expanded = False
        self._open = name
        question = QUESTIONS[name]
        self._fields = {o.name: field(o) for o in options(question)}
        self._inputs.children = list(self._fields.values())
        for part in self._fields.values():
            part.observe(self._ask, "value")
        rows = "".join(f"<div>{escape(row)}</div>" for row in str(question.about).splitlines()[1:])
        self._about.value = f"<details><summary>how it is known</summary>{rows}</details>"
        self._places[name].children = [self._panel]
        self._ask()

    def _close(self) -> None:
        """Removes the open answer."""
        self._places[self._open].children = []
        self._open = ""
        for part in self._fields.values():
            part.close()
        self._fields = {}
        self._room.clear()
        self.shown = None

    def _ask(self, _: Any = None) -> None:
        name = self._open
        values = {key: field.value for key, field in self._fields.items()}
        self._room.say("asking ...")
        needs = self._needs(name)
        if needs.compiled or needs.passes or needs.profile:
            self._compile()
        self.shown = self._room.show(lambda: self._answer(name, values)) or self.shown
        if self.shown is not None and name not in self.sentences:
            self._say(name, self.shown.findings[0])
        self._tell()

    def _compile(self) -> None:
        """Records what all questions need, with at most one compile; an error is shown later."""
        self._status.value = "compiling ..."
        needs = replace(reduce(or_, map(self._needs, QUESTIONS)), line_trace=False)
        with suppress(Exception):  # of the user's function, or JAX: each answer raises it again
            self.capture.gather(needs)

    def _needs(self, name: str) -> Needs:
        """Returns what a question needs; to know that of several devices traces the function."""
        try:
            return QUESTIONS[name].needed(self.capture, {})
        except Exception:  # of the user's function: its answer raises it again
            return Needs()

    def _tell(self, everything: bool = False) -> None:
        """Answers in a sentence what takes no further compile, and no trace unless `everything`."""
        compiled = self.capture.driver.waits_for("optimized") == ""
        for name in QUESTIONS if compiled or everything else ():
            traces = name in TRACING or self._needs(name).line_trace
            if name not in self.sentences and (everything or not traces):
                self._say(name, self._sentence(name))
        left = len(QUESTIONS) - len(self.sentences)
        self._status.value = f"{left} not asked yet" if left else ""
        self.keep()

    def _sentence(self, name: str) -> Finding:
        if name == "against":
            return Finding("Choose an earlier capture to compare this program with.", "unknown")
        defaults = {option.name: option.default for option in options(QUESTIONS[name])}
        try:
            return self._answer(name, defaults).findings[0]
        except Exception as why:  # as the answer itself shows it
            return Finding(one_line(why), "unknown")

    def _say(self, name: str, finding: Finding) -> None:
        self.sentences[name] = finding
        self._rows[name].tell(finding)

    def kept(self) -> View | None:
        """Returns the list with its sentences, above the answer that is open; None without any."""
        if not self.sentences and self.shown is None:
            return None
        rows = []
        for name, question in QUESTIONS.items():
            finding = self.sentences.get(name)
            trust = known(finding) if finding else ""
            rows.append(
                cells(question.about.sentence, finding.text if finding else "not asked yet", trust)
            )
        table = Table("", ("question", "answer", "how it is known"), tuple(rows))
        title = header_line(self.capture.program)
        document = Document("lenses", title, (TableBlock(table),))
        if self.shown is not None:
            blocks = (*document.blocks, *self.shown.document.blocks)
            document = replace(self.shown.document, blocks=blocks)
        return View(None, lambda: document)  # one of the capture would trace it to be shown

    def _answer(self, name: str, values: OptionValues) -> Answer[Any]:
        """Returns the answer, computed once for each combination of option values."""
        key = (name, *values.values())
        if key in self._answers:
            return self._answers[key]
        shown = answer(QUESTIONS[name], self, values)
        if name != "against":  # the variable may change
            self._answers[key] = shown
        return shown

    def close(self) -> None:
        """Closes the widget and all in it."""
        for part in (*self._fields.values(), *self._rows.values(), *self._places.values()):
            part.close()
        self._room.close()
        super().close()


def one_line(why: Exception) -> str:
    """Returns an error as a line; one of jaxlens is a sentence by itself."""
    if isinstance(why, LensError):
        return str(why)
    return f"{type(why).__name__}: {(str(why).splitlines() or [''])[0]}"


class OutputArea(widgets.VBox):
    """A message line above a view, which stays until another one replaces it."""

    def __init__(self) -> None:
        self._words = widgets.HTML()
        self._place = widgets.VBox(layout=widgets.Layout(min_height="24em"))
        self._shown: Explorer | None = None
        super().__init__([self._words, self._place])

    def show(self, make: Callable[[], Answer[Any]]) -> Answer[Any] | None:
        """Shows and returns the result of `make`; if it raises, shows a message, returns None.

        Errors of the user's function and of JAX are shown in one line as well, since a widget has
        no room for a traceback.
        """
        try:
            answer = make()
            shown = Explorer(answer)
        except Exception as why:
            self.say(one_line(why), "alert")
            return None
        self.say("")
        before, self._shown = self._shown, shown
        self._place.children = [shown]
        if before is not None:
            before.close()
        return answer

    def clear(self) -> None:
        """Removes and closes the view."""
        self._place.children = []
        if self._shown is not None:
            self._shown.close()
        self._shown = None

    def say(self, text: str, role: str = "status") -> None:
        """Sets the message line; "" clears it."""
        self._words.value = f'<span role="{role}">{escape(text)}</span>' if text else ""

    @property
    def words(self) -> str:
        """The message line as HTML."""
        return str(self._words.value)

    def close(self) -> None:
        """Closes the area and what it shows."""
        self.clear()
        super().close()
