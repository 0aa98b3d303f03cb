"""What the widget of all lenses can ask, and what each question can be told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import ipywidgets as widgets
from IPython.core.getipython import get_ipython

from jaxlens import questions
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.lenses.cost.published_limits import PUBLISHED
from jaxlens.notebook.widgets.composer import Composer
from jaxlens.notebook.widgets.key_player import KeyPlayer
from jaxlens.views.view import View

Told = Mapping[str, Any]
_NONE = "(none)"


class Program(Protocol):
    """What is asked about: a call, and its capture."""

    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
    capture: Capture


@dataclass(frozen=True, slots=True)
class Field:
    """Something that a question can be told.

    Attributes:
        name: As the verb's keyword has it.
        words: What stands beside it.
        make: Makes the widget, given its words.
    """

    name: str
    words: str
    make: Callable[[str], Any]

    def made(self) -> Any:
        """A widget for it, whose value is what is told."""
        return self.make(self.words)


@dataclass(frozen=True, slots=True)
class Question:
    """One question of `ABOUT`: how it is answered, and what it can be told."""

    answer: Callable[[Program, Told], View | widgets.Widget]
    fields: tuple[Field, ...] = ()


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
    """The names in the user's notebook that hold a program that was looked at."""
    names = [_NONE, *(name for name, value in _names().items() if _program(value) is not None)]
    made = widgets.Dropdown(options=names, description=words)
    made.style.description_width = "initial"
    return made


def _names() -> dict[str, Any]:
    shell: Any = get_ipython()
    space = shell.user_ns if shell else {}
    return {name: value for name, value in space.items() if not name.startswith("_")}


def _program(value: Any) -> Capture | None:
    """The program of a capture or a view."""
    found = value if isinstance(value, Capture) else getattr(value, "capture", None)
    return found if isinstance(found, Capture) and isinstance(value, Capture | View) else None


def _against(asked: Program, told: Told) -> View:
    before = _program(_names().get(told["before"]))
    if before is None:
        raise UnavailableError(
            "choose what to compare with: a capture or view that a name of this notebook holds, "
            "such as before = jaxlens.capture(step, x), or %%compile -o before"
        )
    return questions.compare(before, asked.capture, names=(told["before"], "this program"))


def _ladder(asked: Program, _: Told) -> View | widgets.Widget:
    """The rungs of a transformed function; of a plain one, the widget that transforms it."""
    f, args, kwargs = asked.call
    try:
        return questions.ladder(asked.capture)
    except UnavailableError:
        return Composer(f, *args, **kwargs)


def _fusion(asked: Program, told: Told) -> View:
    if not told["without"]:
        return questions.fusion(asked.capture)
    other = questions.without(asked.capture, told["without"])
    return questions.compare(asked.capture, other, names=("as it is", f"without {told['without']}"))


def _key(asked: Program, _: Told) -> widgets.Widget:
    f, args, kwargs = asked.call
    return KeyPlayer(f, *args, **kwargs)


QUESTIONS: Mapping[str, Question] = {
    "key": Question(_key),
    "times": Question(
        lambda asked, told: questions.times(asked.capture, **told),
        (
            Field("scan", "try lax.scan (compiles two programs more)", _switch),
            Field("run", "and run both", _switch),
        ),
    ),
    "fusion": Question(
        _fusion, (Field("without", "leave out (compiles in another process)", _text),)
    ),
    "memory": Question(
        lambda asked, told: questions.memory(asked.capture, **told),
        (Field("checkpoint", "try jax.checkpoint (compiles up to three programs more)", _switch),),
    ),
    "cost": Question(
        lambda asked, told: questions.cost(asked.capture, **told),
        (
            Field("roofline", "limits of", _device),
            Field("run", "execute it so often, and measure", _count),
        ),
    ),
    "ladder": Question(_ladder),
    "tape": Question(lambda asked, _: questions.tape(asked.capture)),
    "sharding": Question(lambda asked, _: questions.sharding(asked.capture)),
    "captured": Question(lambda asked, _: questions.captured(asked.capture)),
    "against": Question(_against, (Field("before", "before", _stored),)),
}
"""In the order of the dropdown; the names are those of `ABOUT`."""
