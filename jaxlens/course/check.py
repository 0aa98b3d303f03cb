"""Judges an answer: runs a puzzle's check within limits, and puts the result into one sentence."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlens.course.errors import user_error
from jaxlens.course.evidence import evidence_pane
from jaxlens.course.library import puzzle as load
from jaxlens.course.limits import LimitError, limited
from jaxlens.course.puzzle import Fact, Puzzle
from jaxlens.errors import LensError
from jaxlens.render.document import Block, Code, Document, TableBlock
from jaxlens.report import Table, cells
from jaxlens.views.view import View

_GIVES = "does each name hold, and each function return, what the task asks for?"


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(View):
    """The judgement on one answer: `str(outcome)` is its text, a notebook shows its HTML.

    Attributes:
        id: The puzzle, "7.1".
        solved: Whether every required fact holds.
        sentence: The judgement in one sentence, with what the first missing fact suggests.
        facts: What was looked up, in order, up to the first fact that does not hold.
        error: The exception that the answer raised in the check; None if it raised none.
    """

    id: str = ""
    solved: bool = False
    sentence: str = ""
    facts: tuple[Fact, ...] = ()
    error: BaseException | None = None

    @cached_property
    def evidence(self) -> View | None:
        """The lens that shows the decisive fact; None where no lens does."""
        try:
            return self.prove()
        except Exception:  # an answer is judged also where its program cannot be shown
            return None

    def prove(self) -> View | None:
        """Makes `evidence`; raises what the lens raises."""
        proofs = [fact.evidence for fact in self.facts if fact.evidence is not None]
        return proofs[-1]().compute() if proofs else None


def check(id: str, names: Mapping[str, Any]) -> Outcome:
    """Judges an answer and records a solved puzzle in the learner's progress.

    Args:
        id: The puzzle, "7.1".
        names: What the answer defines, by name. Only the names that the puzzle takes are used.

    Returns:
        The judgement: `.solved`, `.sentence`, `.facts`.

    Raises:
        OptionError: There is no such puzzle.
    """
    from jaxlens.course import progress_file

    outcome = judge(load(id), names)
    if outcome.solved:
        progress_file.record("solved", id)
    return outcome


def judge(puzzle: Puzzle, names: Mapping[str, Any]) -> Outcome:
    """Judges an answer; remembers nothing."""
    missing = [name for name in takes(puzzle) if name not in names]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        return _outcome(puzzle, (), f"the answer must define {listed}")
    backend = _backend()
    if puzzle.backends and backend not in puzzle.backends:
        needed = " or ".join(puzzle.backends)
        return _outcome(puzzle, (), f"it is judged on {needed} only, and this is {backend}")
    parameters = inspect.signature(puzzle.check).parameters
    facts: list[Fact] = []
    try:
        with limited(puzzle.seconds):
            for fact in puzzle.check(**{n: names[n] for n in parameters if n in names}):
                facts.append(fact)
                if not fact.holds and (not fact.backends or backend in fact.backends):
                    return _outcome(puzzle, tuple(facts), _missed(fact))
    except LimitError as error:
        return _outcome(puzzle, tuple(facts), str(error), error=error)
    except LensError as error:
        return _outcome(puzzle, tuple(facts), str(error), error=error)
    except Exception as error:
        raised = user_error(error)
        # The check itself raised, by what it got: most often a function returns nothing.
        asks = "" if raised.in_answer else f"; {_GIVES}"
        return _outcome(puzzle, tuple(facts), f"{raised.sentence}{asks}", error=error)
    return _outcome(puzzle, tuple(facts), "", solved=True)


def takes(puzzle: Puzzle) -> tuple[str, ...]:
    """Returns the names that an answer must define: the check's parameters without default."""
    parameters = inspect.signature(puzzle.check).parameters.values()
    return tuple(p.name for p in parameters if p.default is p.empty)


def _backend() -> str:
    import jax

    return jax.default_backend()


def _missed(fact: Fact) -> str:
    return f"{fact.name}, wanted {fact.wanted}, got {fact.actual}. {fact.hint}".strip()


def _outcome(
    puzzle: Puzzle,
    facts: tuple[Fact, ...],
    problem: str,
    *,
    solved: bool = False,
    error: BaseException | None = None,
) -> Outcome:
    if solved:
        sentence = f"Puzzle {puzzle.id} is solved. {puzzle.after}".strip()
    else:
        sentence = f"Puzzle {puzzle.id} is not solved: {problem}"
    sentence += "" if sentence.endswith((".", "?", "!")) else "."
    outcome = Outcome(None, lambda: _document(outcome), puzzle.id, solved, sentence, facts, error)
    return outcome


def _document(outcome: Outcome) -> Document:
    blocks: list[Block] = []
    if outcome.facts:
        rows = tuple(
            cells(fact.name, fact.wanted, fact.actual, _mark(fact)) for fact in outcome.facts
        )
        columns = ("fact", "wanted", "your program", "")
        blocks.append(TableBlock(Table("What was looked up", columns, rows)))
    if outcome.error is not None and not isinstance(outcome.error, LensError):
        blocks.append(Code("text", user_error(outcome.error).text, title="Where"))
    evidence = outcome.evidence
    web = None
    if evidence is not None:
        blocks.append(evidence_pane(evidence, "The evidence: "))
        web = evidence.document.web
    return Document("puzzle", outcome.sentence, tuple(blocks), web)


def _mark(fact: Fact) -> str:
    if fact.holds:
        return "holds"
    required = not fact.backends or _backend() in fact.backends
    return "differs" if required else f"required on {', '.join(fact.backends)} only"
