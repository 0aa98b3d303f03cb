"""The questions of the `Lenses` widget, their options and answers."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import ipywidgets as widgets
from IPython.core.getipython import get_ipython

from jaxlens import ask
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.lenses.cost.published_limits import PUBLISHED
from jaxlens.notebook.widgets.composer import Composer
from jaxlens.notebook.widgets.key_player import KeyPlayer
from jaxlens.questions import show, table
from jaxlens.questions.question import Option, Question
from jaxlens.views.view import View

Told = Mapping[str, Any]
_NONE = "(none)"


class AskedCall(Protocol):
    """A call and its capture."""

    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
    capture: Capture


def _switch(words: str) -> Any:
    made = widgets.Checkbox(description=words, indent=False)
    made.layout.width = "auto"
    return made


def _count(words: str) -> Any:
    made = widgets.BoundedIntText(0, 0, 10_000, description=words)
    made.style.description_width = "initial"
    return made


def _text(words: str) -> Any:
    made = widgets.Text(
        description=words, placeholder="fusion, or xla_flag=value", continuous_update=False
    )
    made.layout.width = "34em"
    made.style.description_width = "initial"
    return made


def _device(words: str) -> Any:
    options = [(_NONE, ""), ("this one, measured", "here"), *((each, each) for each in PUBLISHED)]
    made = widgets.Dropdown(options=options, description=words)
    made.style.description_width = "initial"
    return made


def _stored(words: str) -> Any:
    """Returns a dropdown of the notebook's variables that hold a capture, or a view of one."""
    names = [_NONE, *(name for name, value in _names().items() if _program(value) is not None)]
    made = widgets.Dropdown(options=names, description=words)
    made.style.description_width = "initial"
    return made


def _names() -> dict[str, Any]:
    shell: Any = get_ipython()
    space = shell.user_ns if shell else {}
    return {name: value for name, value in space.items() if not name.startswith("_")}


def _program(value: Any) -> Capture | None:
    """Returns the capture that a value is, or that a view has; None for other values."""
    found = value if isinstance(value, Capture) else getattr(value, "capture", None)
    return found if isinstance(found, Capture) and isinstance(value, Capture | View) else None


def _against(asked: AskedCall, told: Told) -> View:
    before = _program(_names().get(told["before"]))
    if before is None:
        raise UnavailableError(
            "choose what to compare with: a capture or view that a name of this notebook holds, "
            "such as before = jaxlens.capture(step, x), or %%compile -o before"
        )
    return ask.compare(before, asked.capture, names=(told["before"], "this program"))


def _ladder(asked: AskedCall, _: Told) -> View | widgets.Widget:
    """Returns the ladder of a transformed function; for a plain one, a `Composer`."""
    f, args, kwargs = asked.call
    try:
        return ask.ladder(asked.capture)
    except UnavailableError:
        return Composer(f, *args, **kwargs)


def _fusion(asked: AskedCall, told: Told) -> View:
    if not told["without"]:
        return ask.fusion(asked.capture)
    other = ask.without(asked.capture, told["without"])
    return ask.compare(asked.capture, other, names=("as it is", f"without {told['without']}"))


def _key(asked: AskedCall, _: Told) -> widgets.Widget:
    f, args, kwargs = asked.call
    return KeyPlayer(f, *args, **kwargs)


_IN_PANELS: Mapping[str, Callable[[AskedCall, Told], View | widgets.Widget]] = {
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


def answer(question: Question[Any], asked: AskedCall, told: Told) -> View | widgets.Widget:
    """Returns the answer to a question of the panel, or a widget that shows it."""
    if question.name in _IN_PANELS:
        return _IN_PANELS[question.name](asked, told)
    return show.ask(question, asked.capture, **told)


def options(question: Question[Any]) -> tuple[Option, ...]:
    """Returns the options of a question in the panel."""
    more = _MORE.get(question.name)
    return (*question.choices, *([more] if more else []))


def field(option: Option) -> Any:
    """Returns an input widget for an option, whose value is the option's."""
    if option.values in _FROM_LISTS:
        return _FROM_LISTS[option.values](option.label)
    make = {bool: _switch, int: _count, str: _text}[type(option.default)]
    return make(option.label)


_FROM_LISTS: Mapping[str, Callable[[str], Any]] = {"device": _device, "capture": _stored}

QUESTIONS: Mapping[str, Question[Any]] = {
    question.name: question
    for question in sorted(table.QUESTIONS, key=lambda question: question.panel)
    if question.panel
}
"""Questions by name, in the order of the dropdown."""
