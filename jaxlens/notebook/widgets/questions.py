"""The questions of the `Lenses` widget, their options and answers."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import ipywidgets as widgets
from IPython.core.getipython import get_ipython

import jaxlens
from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.program.published_limits import PUBLISHED
from jaxlens.question import Option, Question
from jaxlens.questions import rows
from jaxlens.views.answer import Answer
from jaxlens.views.view import View

OptionValues = Mapping[str, Any]
_NONE = "(none)"


class CapturedCall(Protocol):
    """A call and its capture."""

    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
    capture: Capture


def _names() -> dict[str, Any]:
    shell: Any = get_ipython()
    space = shell.user_ns if shell else {}
    return {name: value for name, value in space.items() if not name.startswith("_")}


def _program(value: Any) -> Capture | None:
    """Returns the capture that a value is, or that a view has; None for other values."""
    capture = value.capture if isinstance(value, View) else value
    return capture if isinstance(capture, Capture) else None


def _against(program: CapturedCall, values: OptionValues) -> Answer[Any]:
    before = _program(_names().get(values["before"]))
    if before is None:
        raise UnavailableError(
            "choose what to compare with: a capture or view that a name of this notebook holds, "
            "such as before = jaxlens.capture(step, x), or %%compile -o before"
        )
    return jaxlens.compare(before, program.capture, names=(values["before"], "this program"))


def _ladder(program: CapturedCall, _: OptionValues) -> Answer[Any]:
    return jaxlens.ladder(program.capture)


def _key(program: CapturedCall, _: OptionValues) -> Answer[Any]:
    f, args, kwargs = program.call
    return jaxlens.key(f, *args, **kwargs)


def _fusion(program: CapturedCall, values: OptionValues) -> Answer[Any]:
    if not values["without"]:
        return jaxlens.fusion(program.capture)
    other = jaxlens.without(program.capture, values["without"])
    names = "as it is", f"without {values['without']}"
    return jaxlens.compare(program.capture, other, names=names)


_IN_PANELS: Mapping[str, Callable[[CapturedCall, OptionValues], Answer[Any]]] = {
    "key": _key,
    "ladder": _ladder,
    "fusion": _fusion,
    "against": _against,
}
"""Functions that answer a question in the panel, where the panel differs from its verb."""

_MORE: Mapping[str, Option] = {
    "fusion": Option("without", "", "leave out (compiles in another process)"),
    "against": Option("before", "", "before", values="capture"),
}
"""Additional options of these questions in the panel."""


def answer(question: Question[Any], program: CapturedCall, values: OptionValues) -> Answer[Any]:
    """Returns the answer to a question of the panel."""
    if question.name in _IN_PANELS:
        return _IN_PANELS[question.name](program, values)
    return ask(question, program.capture, **values)


TRACING = ("ladder",)
"""Questions whose answer traces the function again, apart from those that need a line trace."""


def options(question: Question[Any]) -> tuple[Option, ...]:
    """Returns the options of a question in the panel."""
    more = _MORE.get(question.name)
    return (*question.choices, *([more] if more else []))


def field(option: Option) -> Any:
    """Returns an input widget for an option, whose value is the option's."""
    label: dict[str, Any] = {"description": option.label}
    if isinstance(option.default, bool):
        return widgets.Checkbox(indent=False, layout=widgets.Layout(width="auto"), **label)
    label["style"] = {"description_width": "initial"}
    if isinstance(option.default, int):
        return widgets.BoundedIntText(0, 0, 10_000, **label)
    if option.values == "device":
        published = ((name, name) for name in PUBLISHED)
        devices = [(_NONE, ""), ("this one, measured", "here"), *published]
        return widgets.Dropdown(options=devices, **label)
    if option.values == "capture":  # the notebook's variables that hold one, or a view of one
        names = (name for name, value in _names().items() if _program(value) is not None)
        return widgets.Dropdown(options=[_NONE, *names], **label)
    return widgets.Text(
        placeholder="fusion, or xla_flag=value",
        continuous_update=False,
        layout=widgets.Layout(width="34em"),
        **label,
    )


QUESTIONS: Mapping[str, Question[Any]] = {
    question.name: question
    for question in sorted(rows(), key=lambda question: question.panel)
    if question.panel
}
"""Questions by name, in the order of the list."""
