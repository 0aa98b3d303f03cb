"""The questions that the shell can ask, by name: `memory`, `fits=h100`, `checkpoint`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jaxlens.errors import OptionError, nearest
from jaxlens.questions import rows
from jaxlens.viewer.panes import PANES

RUNS = ("recompiles", "timeline")
"""The names of questions about a run, which have no magic that looks at a program."""
_DOCUMENTS = ("check", "compile")  # verbs whose answer begins with sentences


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is asked.

    Attributes:
        name: Its name: of a row, or of an option of a row that asks a question.
        sentence: The question.
        verb: The verb that answers it, with the name as its option: `jaxlens.compile(cap,
            memory=True)`; "" for a question about a run.
        metavar: The name of its value: "DEVICE", "[DEVICE]" where it has a default; "" for none.
        alias: The name of its verb in Python; "" for none.
        value: Its value as it is asked.
    """

    name: str
    sentence: str
    verb: str
    metavar: str = ""
    alias: str = ""
    value: str = ""

    @property
    def written(self) -> str:
        """How it is written: "fits=DEVICE"."""
        return f"{self.name}={self.metavar}".replace("=[", "[=").removesuffix("=")

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its verb."""
        value = "here" if self.metavar.startswith("[") else True
        return {} if self.name == self.verb else {self.name: self.value or value}


@cache
def questions() -> Mapping[str, Asked]:
    """Returns the questions by name, in the order of the README's table."""
    found: dict[str, Asked] = {}
    for asked in _all():
        found.setdefault(asked.name, asked)
    return found


def _all() -> Iterator[Asked]:
    for row in sorted(rows(), key=lambda row: row.panel or 100):
        if row.verb or row.name in RUNS:
            yield Asked(row.name, row.about.sentence, row.verb, row.metavar, row.function)
        for option in row.options:
            if option.about:
                yield Asked(option.name, option.about.sentence, row.verb, option.metavar)
    for name in _DOCUMENTS:
        yield Asked(name, PANES[name].about.sentence, name)


def listing() -> str:
    """Returns the questions with their sentences."""
    known = questions().values()
    width = max(len(asked.written) for asked in known)
    return "\n".join(f"{asked.written:<{width}}  {asked.sentence}" for asked in known)


def question(text: str) -> Asked:
    """Returns the question that a text names.

    Raises:
        OptionError: There is none, or its value is missing or not taken.
    """
    name, _, value = text.partition("=")
    known = questions()
    by_alias = {asked.alias: asked for asked in known.values() if asked.alias}
    asked = known.get(name) or by_alias.get(name)
    if asked is None:
        if any(row.name == name for row in rows()):
            raise OptionError(f"{name} is about a process that has run: ask jaxlens.{name} in it")
        raise OptionError(f"no question {name!r}; {nearest(name, [*known, *by_alias])}")
    if bool(value) != bool(asked.metavar) and not asked.metavar.startswith("["):
        raise OptionError(f"the question is written {asked.written}, got {text!r}")
    return replace(asked, value=value)
