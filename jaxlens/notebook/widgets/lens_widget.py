"""A widget that answers any question about one program, chosen with its options."""

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from jaxlens import api
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, nearest
from jaxlens.notebook.widgets.output_area import OutputArea
from jaxlens.notebook.widgets.questions import QUESTIONS, OptionValues, answer, field, options
from jaxlens.notebook.widgets.saved_answer import Kept
from jaxlens.views.view import View


class Lenses(Kept, widgets.VBox):
    """A widget that answers any question about one program, chosen with its options.

        jaxlens.Lenses(step, params, x)

    The program is captured once. A question that needs dumps of passes or a profile, which the
    first compile did not record, compiles once more. Nothing is executed or measured on the device
    unless that option is switched on.

    Args:
        f: A function.
        *args: Its arguments, arrays or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Attributes:
        capture: The program.
        shown: The answer that is shown, a view or another widget; None before the first question.
    """

    def __init__(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self.call = f, args, kwargs
        self.capture: Capture = api.capture(f, *args, **kwargs)
        self.shown: View | widgets.Widget | None = None
        self._answers: dict[tuple[Any, ...], View] = {}
        self._fields: dict[str, Any] = {}
        choices = [("choose a question", "")]
        choices += [(row.about.sentence, name) for name, row in QUESTIONS.items()]
        self._choice = widgets.Dropdown(options=choices, description="ask")
        self._choice.layout.width = "32em"
        self._choice.observe(self._chosen, "value")
        self._inputs = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        self._about = widgets.HTML()
        self._room = OutputArea()
        super().__init__([widgets.HBox([self._choice, self._inputs]), self._about, self._room])

    def ask(self, question: str, **told: Any) -> None:
        """Asks a question by its name, with its options: `ask("memory", checkpoint=True)`.

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
        self._choice.value = question
        for name, value in told.items():
            self._fields[name].value = value

    def _chosen(self, _: Any = None) -> None:
        """Shows the option fields of the chosen question, and its answer with their defaults."""
        for part in self._fields.values():
            part.close()
        name = self._choice.value
        self._fields = {o.name: field(o) for o in options(QUESTIONS[name])} if name else {}
        self._inputs.children = list(self._fields.values())
        for part in self._fields.values():
            part.observe(self._ask, "value")
        sources = str(QUESTIONS[name].about).splitlines()[1:] if name else []
        rows = "".join(f"<div>{escape(row)}</div>" for row in sources)
        folded = f"<details><summary>how it is known</summary>{rows}</details>"
        self._about.value = folded if name else ""
        self._room.clear()
        self.shown = None
        if name:
            self._ask()

    def _ask(self, _: Any = None) -> None:
        name = self._choice.value
        values = {key: field.value for key, field in self._fields.items()}
        self._room.say("asking ...")
        self.shown = self._room.show(lambda: self._answer(name, values)) or self.shown
        self.keep()

    def kept(self) -> View | None:
        """Returns the answer that is shown, or that of the widget that is shown."""
        if isinstance(self.shown, Kept):
            return self.shown.kept()
        return self.shown if isinstance(self.shown, View) else None

    def _answer(self, name: str, values: OptionValues) -> View | widgets.Widget:
        """Returns the answer, computed once for each combination of option values."""
        key = (name, *values.values())
        if key in self._answers:
            return self._answers[key]
        shown = answer(QUESTIONS[name], self, values)
        if isinstance(shown, View) and name != "against":  # the variable may change
            self._answers[key] = shown
        return shown

    def close(self) -> None:
        """Closes the widget and all in it."""
        for part in self._fields.values():
            part.close()
        self._room.close()
        super().close()
