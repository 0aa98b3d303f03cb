"""The verbs that answer one question each; an answer has the lens's figures as attributes.

    answer = jaxlens.cost(step, params, x)
    answer.flops                # a fact, to assert on
    print(answer)               # the sentences and tables that `%compile --cost` shows

Each takes a function with its arguments, or a `Capture`; nothing is executed unless a verb says so.
"""

from collections.abc import Callable, Sequence
from functools import cache
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

from jaxlens.captures import Capture
from jaxlens.capturing import Function, as_capture
from jaxlens.errors import LensError, OptionError
from jaxlens.options import CompilePanes
from jaxlens.question import Question
from jaxlens.questions import rows
from jaxlens.questions.compare.side_by_side import SideBySide
from jaxlens.views.answer import Answer

F = TypeVar("F")


_ARGUMENTS = """

Args:
    f: A function, or a Capture.
    *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
    **kwargs: Its keyword arguments{options}.

"""


def _verb(question: Question[F], name: str) -> Callable[..., Answer[F]]:
    """Returns the verb of a question; its docstring is made of the row and the lens function's."""

    def verb(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer[F]:
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
    verb.__annotations__["return"] = Answer  # as help() shows it
    return verb


def __getattr__(name: str) -> Callable[..., Answer[Any]]:
    """The verbs that are made of a row alone."""
    found = [row for row in rows() if row.function == name]
    if not found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    verb = globals()[name] = _verb(found[0], name)
    return verb


def side_by_side(*programs: Any, explore: bool = False) -> Answer[SideBySide]:
    """Shows one function on several targets: a column of figures for each, and linked panes.

        jaxlens.side_by_side(cap, jaxlens.capture(step, params, x, target="gpu:h100"))

    Args:
        *programs: Captures, views, or paths of saved captures.
        explore: Whether the programs stand beside your lines at first, and not the kernels.

    Returns:
        An answer with `.columns`, each with `.name`, `.figures` by name, `.seconds` of each step,
        and `.missing` (why a program did not compile).

    Raises:
        OptionError: There is no program, or one of them is no capture.
        CaptureFileError: A file holds no capture.
    """
    from jaxlens.program.sentences import listed
    from jaxlens.questions.compare.causes import called, device

    captures = [as_capture(program) for program in programs]
    if not captures:
        raise OptionError("side_by_side takes one capture or more: jaxlens.capture(f, x)")
    types = {(called(cap.program), *(str(x.type) for x in cap.program.inputs)) for cap in captures}
    if len(types) > 1:
        calls = [*dict.fromkeys(called(cap.program) for cap in captures)]
        raise OptionError(
            f"side_by_side shows one call on several targets, got {listed(calls, 3)}; "
            "jaxlens.compare(before, after) shows two calls"
        )
    names: dict[str, Capture] = {}
    for cap in captures:
        written = getattr(cap.driver, "target", "")  # a saved capture has the device alone
        place = written if ":" in written else device(cap.program.target)
        name = ", ".join((place, *cap.program.flags))
        count = sum(other.partition(" (")[0] == name for other in names)
        names[f"{name} ({count + 1})" if count else name] = cap
    return on_targets(list(names.items()), "explore" if explore else "compile")


def on_targets(
    programs: Sequence[tuple[str, Capture | LensError]], verb: str = "compile", full: bool = False
) -> Answer[SideBySide]:
    """Shows one function on several targets, with a column for each.

    Args:
        programs: The name of each target, with its program or why there is none.
        verb: "compile" or "explore".
        full: Whether nothing is left out.

    Raises:
        LensError: There is a program for none of the targets.
    """
    from jaxlens.questions.compare.side_by_side import report
    from jaxlens.viewer import side_by_side as targets

    captures = [program for _, program in programs if isinstance(program, Capture)]
    if not captures:
        raise next(why for _, why in programs if isinstance(why, LensError))
    figures = cache(lambda: targets.side_by_side(programs))
    return Answer(
        captures[0],
        lambda: targets.document(verb, programs, figures(), full),
        lambda: report(figures()),
        figures,
    )
