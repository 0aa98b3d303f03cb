"""The options of each verb: one definition for Python, magics, help and completion.

A field's name is the option's name (`pass_name` is `--pass`). Its metadata has the sentence that
`-h` prints, the name of its value there, and the kind of values that Tab completes. Options of
*what is captured* (`--in`, `--grad`, `--target`) are not here: in Python they are written
`jaxlens.capture(jax.grad(f), x, target=...)`.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from jaxlens.errors import OptionError, nearest
from jaxlens.ir.stage import STAGES

STAGE_NAMES = tuple(s.name for s in STAGES if s.name not in ("source", "passes"))


def option(
    default: Any, help: str, metavar: str | tuple[str, ...] = "", values: str = "", kind: type = str
) -> Any:
    """Returns a dataclass field with the metadata that the parser, help and completion need.

    Args:
        default: Value when it is not given.
        help: One sentence, lower case, as `-h` prints it.
        metavar: Name of its value there; "" for a switch, a tuple for several values; in brackets
            if the value can be omitted, which then is "here".
        values: What Tab completes: "stage", "pass", "kernel", "target", "device", or "" for
            nothing.
        kind: Type of the value; tuple for an option that can be given several times.
    """
    about = {"help": help, "metavar": metavar, "values": values, "kind": kind}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class JaxprPanes:
    """Options of `jaxlens.jaxpr`; by default: the listing beside your lines, and the graph."""

    text: bool = option(False, "show the listing alone")
    graph: bool = option(False, "show the graph alone")
    depth: int = option(1, "levels of nested jaxprs that stand open in the graph", "N", kind=int)


@dataclass(frozen=True, slots=True)
class HloPanes:
    """Options of `jaxlens.hlo`; by default: the program before and after fusion."""

    stage: str = option("", f"one stage alone: {', '.join(STAGE_NAMES)}", "STAGE", values="stage")
    diff: tuple[str, str] | None = option(
        None, "compare two stages or passes", ("A", "B"), values="hlo pass"
    )
    passes: bool = option(False, "list the passes that changed the program, and what each did")
    pass_name: str = option("", "what one pass changed", "NAME", values="pass")

    def __post_init__(self) -> None:
        if self.stage and self.stage not in STAGE_NAMES:
            raise OptionError(f"no stage {self.stage!r}; {nearest(self.stage, STAGE_NAMES)}")


@dataclass(frozen=True, slots=True)
class CompilePanes:
    """Options of `jaxlens.compile`; by default: verdict, kernels, cost, memory and times."""

    run: int = option(0, "execute it N times and measure; without it nothing is run", "N", kind=int)

    def __post_init__(self) -> None:
        if self.run < 0:
            raise OptionError(f"run takes a count of 1 or more, got {self.run}")


@dataclass(frozen=True, slots=True)
class CheckPanes:
    """Options of `jaxlens.check`; by default: all checks."""


@dataclass(frozen=True, slots=True)
class ExplorePanes:
    """Options of `jaxlens.explore`; by default: every pane."""


def flag(name: str) -> str:
    """Returns the flag of a field on a magic's line: `pass_name` is `--pass`, `in_` is `--in`."""
    return "--" + name.removesuffix("_name").rstrip("_")


def read_options(kind: type[Any], keywords: dict[str, Any]) -> Any:
    """Builds options from keywords; the error for an unknown one names the nearest.

    Raises:
        OptionError: A keyword that the verb does not know.
    """
    names = [f.name for f in fields(kind)]
    for name in keywords:
        if name not in names:
            verb = kind.__name__.removesuffix("Options").lower()
            raise OptionError(f"jaxlens.{verb} has no option {name!r}; {nearest(name, names)}")
    return kind(**keywords)
