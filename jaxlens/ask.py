"""The verbs that answer one question each; an answer has the lens's figures as attributes.

    answer = jaxlens.cost(step, params, x)
    answer.flops                # a fact, to assert on
    print(answer)               # the sentences and tables that `%compile --cost` shows

Each takes a function with its arguments, or a `Capture`; nothing is executed unless a verb says so.
"""

from collections.abc import Callable
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

from jaxlens.captures import Capture
from jaxlens.capturing import Function
from jaxlens.options import CompilePanes
from jaxlens.question import Question
from jaxlens.questions import rows
from jaxlens.views.view import View

F = TypeVar("F")


_ARGUMENTS = """

Args:
    f: A function, or a Capture.
    *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
    **kwargs: Its keyword arguments{options}.

"""


def _verb(question: Question[F], name: str) -> Callable[..., View[F]]:
    """Returns the verb of a question; its docstring is made of the row and the lens function's."""

    def verb(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[F]:
        from jaxlens import capturing
        from jaxlens.answers import ask

        options = {option.name: option for option in question.choices}
        keywords = kwargs if isinstance(f, Capture) and set(kwargs) <= set(options) else {}
        cap = capturing.captured(name, f, args, {} if keywords else kwargs)
        CompilePanes(run=keywords.get("run", 0))  # raises for a negative count of runs
        values = {name: options[name].read(value) for name, value in keywords.items()}
        return ask(question, cap, **values)

    verb.__name__ = verb.__qualname__ = name
    sources = str(question.about).replace("\n", "\n\n", 1).splitlines()
    about = "\n".join(fill(line, 96, subsequent_indent="    ") for line in sources)
    answer = cleandoc(question.lens.__doc__ or "").partition("\n\n")[2]
    options = "; with a Capture, the options below" if question.choices else ""
    verb.__doc__ = about + _ARGUMENTS.format(options=options) + answer
    verb.__annotations__["return"] = View  # as help() shows it
    return verb


def __getattr__(name: str) -> Callable[..., View[Any]]:
    """The verbs that are made of a row alone."""
    found = [row for row in rows() if row.function == name]
    if not found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    verb = globals()[name] = _verb(found[0], name)
    return verb
