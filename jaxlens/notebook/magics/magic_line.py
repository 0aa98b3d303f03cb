"""Parses the line of a magic: options, then an expression.

The options of what a magic shows are defined in `options.py` and in the rows of
`questions/`, which `viewer/panes.py` joins; those of what it captures, which all magics
share, are `TakeOptions` here. Both become IPython `magic_arguments`,
so that `-hh` and Tab have the same options as the parser; `-h` and `?` have the first of them.
"""

import argparse
import inspect
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, argument_group, kwds, magic_arguments

from jaxlens.errors import OptionError, nearest
from jaxlens.options import flag, option
from jaxlens.questions import about, of_verb
from jaxlens.viewer.panes import OPTIONS

_WORD = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[^\s"'])+)""")
_OPTION = re.compile(r"--[A-Za-z]|-(?:[a-z]|hh)$")
_HELP = re.compile(r"(^|\s)(-hh?|--help)(\s|$)")
_CALL = re.compile(r"[A-Za-z_][\w.\[\]]*\(")
_NUMBERS = re.compile(r"-?\d+(,(-?\d+|None))*$|None(,(-?\d+|None))+$")
_SEVERAL = ("compile", "explore")  # the verbs that show several targets
TRANSFORMS = {
    "grad": ("ARG", "look at its gradient, by the first argument or by ARG: 1, 0,1 or a name"),
    "vmap": ("AXES", "look at it mapped over axis 0 of all arguments, or over AXES: 0,None"),
    "jvp": ("", "look at its forward derivative; tangents become inputs"),
    "jit": ("", "look at it under jax.jit"),
}
# What to write where a transform does not fit a call.
_FITTING = {
    "grad": "--grad needs a function with one float result, and --grad=NAME picks a float argument",
    "vmap": "--vmap 0,None maps the first argument and passes the second as it is",
}
_LONGEST = 300  # characters of JAX's message
_SHOW, _ASK, _OF, _REST = "show", "ask", "of which program", "output"  # groups of options
_FIRST = 6  # of what is shown and asked, in `-h`
_RARE = {"--jvp", "--jit", "--core"}  # in `-hh`


@dataclass(frozen=True, slots=True)
class TakeOptions:
    """Options of what is captured, the same for every magic.

    Attributes:
        transforms: Transforms with their values, outermost first.
    """

    in_: str = option(
        "",
        "look at the def that ends the cell on these shapes; nothing is allocated: "
        "\"f32[8,128], params={'w': f32[128,4]}\"",
        "SHAPES",
    )
    target: tuple[str, ...] = option(
        (),
        "device to compile for: cpu, gpu, tpu, ...; several, each with a flag of its own, side by "
        "side",
        "DEVICE",
        values="target",
        kind=tuple,
    )
    core: bool = option(False, "let jaxlens.core transform, lower and run what JAX traces")
    o: str = option("", "store what is shown in a variable", "NAME")
    transforms: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.o and (not self.o.isidentifier() or keyword.iskeyword(self.o)):
            raise OptionError(f"-o takes a name to store the view under, got {self.o!r}")


@dataclass(frozen=True, slots=True)
class MagicLine:
    """A magic's parsed line.

    Attributes:
        magic: As the user wrote it: "%%jaxpr" or "%jaxpr".
        verb: "jaxpr", "hlo", "compile", "explore" or "check".
        show: Options of the verb that were given, by field name.
        take: Options of what is captured.
        expression: The text behind the options of a line magic.
        help: "first" for `-h`, "all" for `-hh`, "" for neither.
    """

    magic: str
    verb: str
    show: dict[str, Any]
    take: TakeOptions
    expression: str = ""
    help: str = ""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Formats help at the width of a docstring, whatever the terminal's."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=20, width=88)


class _Transform(argparse.Action):
    """Collects transforms in the order in which they were written."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        name = str(option_string).removeprefix("--")
        transforms = (*getattr(namespace, self.dest, ()), (name, values or ""))
        setattr(namespace, self.dest, transforms)


def with_parser(magic: Any) -> Any:
    """Returns a magic with its `parser`, and its help as its docstring; builds both once.

    A magic without arguments of its own takes the options of the verb of its name, and those of
    every magic.
    """
    function = getattr(magic, "__func__", magic)
    if not hasattr(function, "parser"):
        if not hasattr(function, "decorators"):
            for decorator in reversed(_arguments(OPTIONS[function.__name__])):
                decorator(function)
            text = inspect.cleandoc(function.__doc__ or "")
            kwds(description=text, formatter_class=_Help, usage=argparse.SUPPRESS)(function)
        magic_arguments()(function)
    return magic


def _arguments(kind: type) -> list[Any]:
    """Returns the options of a magic as IPython arguments, in the groups of its help."""
    *own, full = fields(kind)
    panes = fields(kind.__mro__[1])
    *of, store = (_argument(f) for f in fields(TakeOptions) if f.metadata)
    transforms = [
        argument(
            f"--{name}",
            dest="transforms",
            action=_Transform,
            default=(),
            help=help,
            **({"nargs": "?", "metavar": value} if value else {"nargs": 0}),
        )
        for name, (value, help) in TRANSFORMS.items()
    ]
    helps = [
        argument(*names, dest="help", action="store_const", const=all, default="", help=help)
        for *names, all, help in (
            ("-h", "--help", "first", "show this and do nothing"),
            ("-hh", "all", "show all options"),
        )
    ]
    groups = {
        _SHOW: [_argument(f) for f in own[: len(panes)]],
        _ASK: [_argument(f) for f in own[len(panes) :]],
        _OF: [*transforms, *of],
        _REST: [_argument(full), store, *helps],
    }
    return [part for title, group in groups.items() for part in (argument_group(title), *group)]


def _argument(entry: "Field[Any]") -> Any:
    data = entry.metadata
    name = _flag(entry.name)
    help = data["help"].replace("%", "%%")  # argparse formats help with %
    common = {"dest": entry.name, "default": argparse.SUPPRESS, "help": help}
    metavar = data["metavar"]
    if not metavar:
        return argument(name, action="store_true", **common)
    if metavar[0] == "[":
        return argument(name, nargs="?", const="here", metavar=metavar.strip("[]"), **common)
    if data["kind"] is tuple:
        return argument(name, action="append", metavar=metavar, **common)
    more = {"nargs": len(metavar)} if isinstance(metavar, tuple) else {"type": data["kind"]}
    return argument(name, metavar=metavar, **more, **common)


def flags(kind: type) -> dict[str, str]:
    """Returns each option of a magic with the kinds of values that Tab offers ("stage pass")."""
    entries = [*fields(kind), *(f for f in fields(TakeOptions) if f.metadata)]
    own = {_flag(f.name): f.metadata["values"] for f in entries}
    return own | {f"--{name}": "" for name in TRANSFORMS} | {"-h": "", "-hh": "", "--help": ""}


def _flag(name: str) -> str:
    return "-o" if name == "o" else flag(name)


def read(magic: Any, line: str, cell: str | None) -> MagicLine:
    """Parses a magic's line.

    Args:
        magic: The magic.
        line: The text behind its name.
        cell: The cell below it; None for a line magic.

    Raises:
        OptionError: An option that does not exist or does not fit, or text that is no option.
    """
    called = ("%" if cell is None else "%%") + str(magic.__name__)
    parser = with_parser(magic).parser
    words, expression = split(parser, called, line, alone=cell is not None)
    if expression and cell is not None:
        raise OptionError(
            f"{called} takes options only, got {expression!r}; the code goes on the next line"
        )
    show = vars(parse(parser, called, words))
    help = show.pop("help")
    take = {f.name: show.pop(f.name) for f in fields(TakeOptions) if f.name in show}
    if "diff" in show:
        show["diff"] = tuple(show["diff"])
    take["target"] = tuple(take.get("target", ()))
    if len(take["target"]) > 1 and (magic.__name__ not in _SEVERAL or set(show) - {"full"}):
        with_option = "".join(f" with {flag(name)}" for name in [*show][:1])
        raise OptionError(
            f"several --target stand side by side in %%compile and %%explore without further "
            f"options; give one --target in {called}{with_option}"
        )
    OPTIONS[magic.__name__](**show)  # raises for a bad value before the cell runs
    return MagicLine(called, magic.__name__, show, TakeOptions(**take), expression, help)


def parse(parser: argparse.ArgumentParser, called: str, words: list[str]) -> argparse.Namespace:
    """Parses the option words of a magic.

    Raises:
        OptionError: They do not fit.
    """
    try:
        return parser.parse_args(words)
    except UsageError as error:
        raise OptionError(f"{called}: {error}; see {called} -h") from None


def unfit(transforms: Sequence[tuple[str, str]], call: str, error: Exception) -> OptionError:
    """Returns the error for transforms under which a call cannot be traced.

    Args:
        transforms: The names and values of the transforms.
        call: The text of the call, which can be traced without them.
        error: The error of the trace.
    """
    given = " ".join(f"--{name} {value}".strip() for name, value in transforms)
    fixes = [_FITTING[name] for name, _ in transforms if name in _FITTING]
    why = " ".join(str(error).split())[:_LONGEST].rstrip(".: ")
    return OptionError("; ".join([f"{given} does not fit {call}: {why}", *fixes]))


def stored(names: Mapping[str, Any], name: str) -> Any:
    """Returns the view or capture that a variable holds; `name` is looked up, not evaluated.

    Raises:
        OptionError: There is no such variable, or it holds no program.
    """
    from jaxlens.captures import Capture  # not imported by %load_ext
    from jaxlens.views.view import View

    value = names.get(name)
    if not isinstance(value, Capture | View):
        stored = [key for key, value in names.items() if isinstance(value, Capture | View)]
        hint = nearest(name, [key for key in stored if not key.startswith("_")])
        fault = f"{name} holds {type(value).__name__}" if name in names else f"no variable {name!r}"
        raise OptionError(f"--against takes what -o NAME stored; {fault}; {hint}")
    return value


def help_of(magic: Any, line: MagicLine) -> str:
    """Returns the text of `-h`: how the magic is used, or how lenses before `-h` get figures."""
    lenses = [str(row) for name in line.show if (row := about(name))]
    return "\n\n".join(lenses) or first_help(magic, line.help == "all")


def first_help(magic: Any, all: bool = False) -> str:
    """Returns a magic's help: with at most twelve options, or with all."""
    parser = with_parser(magic).parser
    refine = {o.name for row in of_verb(magic.__name__) for o in row.options if o.about}
    own = [a for g in parser._action_groups if g.title in (_SHOW, _ASK) for a in g._group_actions]
    first = [action for action in own if action.dest not in refine][:_FIRST]
    left = [
        a for a in parser._actions if _RARE & {*a.option_strings} or (a in own and a not in first)
    ]
    helps = [action.help for action in left]
    try:
        for action in () if all else left:
            action.help = argparse.SUPPRESS
        return str(parser.format_help())
    finally:
        for action, text in zip(left, helps, strict=True):
            action.help = text


def split(
    parser: argparse.ArgumentParser, called: str, line: str, alone: bool
) -> tuple[list[str], str]:
    """Splits a line into its option words, without their quotes, and the text behind, verbatim.

    Args:
        parser: The magic's parser.
        called: The magic as the user wrote it.
        line: The text behind its name.
        alone: Whether no expression can follow.

    Raises:
        OptionError: There is no such option, or a quote is not closed.
    """
    actions = {name: action for action in parser._actions for name in action.option_strings}
    words: list[str] = []
    rest = line.strip()
    while True:
        first = rest.partition(" ")[0]
        if not _OPTION.match(first.partition("=")[0]):
            break
        word, rest = _take(called, rest)
        name, equals, value = word.partition("=")
        if name not in actions:
            raise OptionError(f"{called} has no option {name}; {nearest(name, actions)}")
        words.append(f"{name}={_unquoted(value)}" if equals else name)
        for _ in range(0 if equals else _wanted(actions[name], rest, alone)):
            if not rest or rest.startswith(("--", "-h")):
                # The parser says that a value is missing; help on an option needs none.
                words[-1] += "=" if _HELP.search(line) and not actions[name].nargs else ""
                break
            if not alone and (call := _CALL.match(rest)):
                given = f"{name} {_values(actions[name])}"
                raise OptionError(
                    f"{called}: write the values of {name} before the call: "
                    f"{called} {given} {call.group()}...); see {called} -h"
                )
            value, rest = _take(called, rest)
            # joined, so that a value may begin with a dash
            words[-1:] = (
                [words[-1], _unquoted(value)]
                if isinstance(actions[name].nargs, int)
                else [f"{words[-1]}={_unquoted(value)}"]
            )
    return words, rest


def _values(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())


def _wanted(action: argparse.Action, rest: str, alone: bool) -> int:
    """Returns how many of the next words are values of an option.

    Before an expression, an optional value is read only if it cannot be the expression itself:
    numbers (`--vmap 0,None`). A name there needs `--grad=name`.
    """
    if isinstance(action.nargs, int):
        return action.nargs
    if action.nargs != "?":
        return 1
    following = rest.split(None, 1)
    if not following or following[0].startswith("--"):
        return 0
    return int(alone or bool(_NUMBERS.match(following[0])))


def _take(called: str, rest: str) -> tuple[str, str]:
    match = _WORD.match(rest)
    if match is None or (match.end() < len(rest) and rest[match.end()] in "\"'"):
        raise OptionError(f"{called}: a quote is not closed in {rest!r}")
    return match.group(1), rest[match.end() :].lstrip()


def _unquoted(word: str) -> str:
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "\"'"
    return word[1:-1] if quoted else word
