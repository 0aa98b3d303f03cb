"""The options of each verb: its own, then those of the questions that it shows."""

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Any

from jaxlens.options import CompilePanes, ExplorePanes, HloPanes, JaxprPanes, option
from jaxlens.questions.table import of_verb


def with_questions(own: type[Any], full: str) -> type[Any]:
    """Returns a dataclass named after the verb; `full` is the help text of the option `full`."""
    verb = own.__name__.removesuffix("Panes")
    asked = [field for question in of_verb(verb.lower()) for field in question.fields()]
    more = [*asked, ("full", bool, option(False, full))]
    made = make_dataclass(f"{verb}Options", more, bases=(own,), frozen=True, slots=True)
    made.__doc__ = own.__doc__
    return made


JaxprOptions = with_questions(
    JaxprPanes, "show every equation and attribute; nothing folded or cut"
)
HloOptions = with_questions(
    HloPanes, "show metadata, layouts and every instruction; nothing folded"
)
CompileOptions = with_questions(CompilePanes, "show every row and line; nothing folded or cut")
ExploreOptions = with_questions(
    ExplorePanes, "show metadata, layouts and every line; nothing folded or cut"
)

OPTIONS: Mapping[str, type[Any]] = {
    "jaxpr": JaxprOptions,
    "hlo": HloOptions,
    "compile": CompileOptions,
    "explore": ExploreOptions,
}
"""Option dataclasses by verb."""
