"""The result of a verb that answers one question: a view with its facts as attributes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from jaxlens.report import Finding, Overlay, Report, Table
from jaxlens.views.view import View

F = TypeVar("F")


@dataclass(frozen=True, eq=False, repr=False)
class Answer(View, Generic[F]):
    """The answer to one question: `str(answer)` is its text, and each fact is an attribute.

    `jaxlens.cost(f, x).flops` is a number to assert on; `answer.facts` has all facts. A notebook
    shows the answer as HTML.

    Attributes:
        ask: Returns the report: sentences, tables and overlays.
        know: Returns the facts: frozen data with a name for each figure.
    """

    ask: Callable[[], Report]
    know: Callable[[], F]

    @cached_property
    def report(self) -> Report:
        """Sentences, tables and overlays as data."""
        return self.ask()

    @cached_property
    def facts(self) -> F:
        """The figures as frozen data."""
        return self.know()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The answer in sentences, each with how it is known."""
        return self.report.findings

    @property
    def tables(self) -> tuple[Table, ...]:
        """The facts as tables."""
        return self.report.tables

    @property
    def overlay(self) -> Overlay | None:
        """A number for each node, to tint a program by; None if the question has none."""
        return self.report.overlays[0] if self.report.overlays else None

    def __getattr__(self, name: str) -> Any:
        """A fact by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("facts", "report", "document"):
            # The cached property raised an AttributeError, which Python hides: raise it again.
            return {"facts": self.know, "report": self.ask, "document": self.build}[name]()
        facts = self.facts
        try:
            return getattr(facts, name)
        except AttributeError:
            names = [word for word in dir(facts) if not word.startswith("_")]
            raise AttributeError(
                f"this answer has no fact {name!r}; it has {', '.join(names)}"
            ) from None

    def __dir__(self) -> list[str]:
        facts = [word for word in dir(self.facts) if not word.startswith("_")]
        return sorted({*super().__dir__(), *facts})
