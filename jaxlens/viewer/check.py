"""The view of `%%check`: what each check found in a sentence, and its whole answer in a fold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.question import Question
from jaxlens.questions import of_verb
from jaxlens.render.document import Block, Findings, Fold
from jaxlens.report import Finding


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """A question that runs the program, with its facts.

    Attributes:
        question: The question.
        facts: Its facts; None where it could not be asked.
        why: Why it could not; "" where it could.
    """

    question: Question[Any]
    facts: Any
    why: str = ""


def checks(capture: Capture) -> tuple[CheckFacts, ...]:
    """Runs every check.

    Raises:
        LensError: None can be made, as of a program that does not run here.
    """
    made, error = list[CheckFacts](), LensError("there is no check here")
    for row in (row for row in of_verb("check") if not row.alone):
        try:
            made.append(CheckFacts(row, row.lens().facts(capture)))
        except LensError as why:
            made.append(CheckFacts(row, None, str(why)))
            error = why
    if all(check.why for check in made):
        raise error
    return tuple(made)


def blocks(made: Sequence[CheckFacts], full: bool) -> list[Block]:
    """Returns the first sentence of each check, over a fold with the rest of its answer."""
    return list(_blocks(made, full))


def _blocks(made: Sequence[CheckFacts], full: bool) -> Iterator[Block]:
    for check in made:
        question = check.question
        if check.why:
            yield Findings((Finding(f"{question.about.sentence} {check.why}.", "unknown"),))
            continue
        first, *rest = question.lens().shown(check.facts, full)
        if isinstance(first, Findings):
            answer, *more = first.findings
            yield Findings((answer,))
            rest = [*([replace(first, findings=tuple(more))] if more else []), *rest]
        if rest:
            yield Fold(f"more: %check --{question.name}", tuple(rest), open=full)
