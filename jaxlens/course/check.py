"""Judges an answer: runs a puzzle's check, and puts the result into one sentence."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import chain, starmap
from types import ModuleType
from typing import Any
from unittest.mock import patch

from jaxlens.course.errors import user_error
from jaxlens.course.library import puzzle as load
from jaxlens.course.puzzle import Fact, Puzzle, evidence_pane
from jaxlens.errors import LensError, missing_package
from jaxlens.render.document import Block, Code, Document, TableBlock
from jaxlens.report import Table, cells
from jaxlens.views.view import View

_OTHERS = "jax jax.numpy jax.lax numpy jaxlens jaxlens.core".split()  # no answer changes them
_GIVES = "does each name hold, and each function return, what the task asks for?"


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One `%%puzzle` cell of a notebook.

    Attributes:
        id: The puzzle.
        code: The cell.
        earlier: The sources of the code cells above it, in order.
        folder: Where the notebook is, with the learner's own JAX.
        values: What is known of the names that it needs of these cells, pickled.
        number: The number of its cell; 0 where it was not run.
    """

    id: str
    code: str
    earlier: tuple[str, ...]
    folder: str
    values: Mapping[str, bytes] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(View[Any]):
    """The judgement on one answer: `str(outcome)` is its text, a notebook shows its HTML.

    Attributes:
        id: The puzzle, "9.1".
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
    def evidence(self) -> View[Any] | None:
        """The lens that shows the decisive fact; None where no lens does."""
        try:
            return self.prove()
        except Exception:  # an answer is judged also where its program cannot be shown
            return None

    def prove(self) -> View[Any] | None:
        """Makes `evidence`; raises what the lens raises."""
        proofs = [fact.evidence for fact in self.facts if fact.evidence is not None]
        return proofs[-1]().compute() if proofs else None

    def without_evidence(self) -> "Outcome":
        """Returns the same judgement, and nothing of a lens."""
        facts = tuple(replace(fact, evidence=None) for fact in self.facts)
        outcome = replace(self, build=lambda: _document(outcome), facts=facts)
        return outcome


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """What the process says of an answer: `str(verdict)` is its text, a notebook shows its HTML.

    Attributes:
        solved: Whether every required fact holds.
        sentence: The judgement in one sentence.
        html: A fragment of HTML, with the evidence.
        brief: The text form.
        whole: The text with all that `brief` leaves out.
        printed: What the check printed as it called the answer's functions.
        ends: Whether the cell ended by itself as it ran, so that it can be run elsewhere.
    """

    solved: bool
    sentence: str
    html: str
    brief: str
    whole: str
    printed: str = ""
    ends: bool = False

    @classmethod
    def of(cls, outcome: Outcome, printed: str = "", ends: bool = False) -> "Judgement":
        """Returns what can be shown of a judgement where its lenses are not."""
        texts = outcome.html(), outcome.text(), outcome.text(full=True)
        return cls(outcome.solved, outcome.sentence, *texts, printed, ends)

    def text(self, *, full: bool = False) -> str:
        """Returns the verdict as text; `full` as in `View.text`."""
        return self.whole if full else self.brief

    def __str__(self) -> str:
        return self.brief

    def __repr__(self) -> str:
        return self.brief

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.brief, "text/html": self.html}


def check(id: str, names: Mapping[str, Any]) -> Outcome:
    """Judges an answer and records a solved puzzle in the learner's progress.

    Args:
        id: The puzzle, "9.1".
        names: What the answer defines, by name. Only the names that the puzzle takes are used.

    Returns:
        The judgement: `.solved`, `.sentence`, `.facts`.

    Raises:
        OptionError: There is no such puzzle.
    """
    from jaxlens.course import attempts

    outcome = judge(load(id), names)
    attempts.note(attempts.Attempt(id, outcome.solved, hints=attempts.shown[id]))
    return outcome


def judged(puzzle: Puzzle, run: Callable[[], Mapping[str, Any]]) -> Outcome:
    """Runs an answer and judges it; what it replaced in JAX, NumPy or jaxlens is put back.

    Args:
        puzzle: The puzzle.
        run: Runs the answer and returns the names that it defines.
    """
    before = {name: dict(vars(module)) for name, module in _others()}
    try:
        with _without_callbacks():
            outcome = judge(puzzle, run())
    except (Exception, SystemExit) as error:
        outcome = unsolved(puzzle, user_error(error).sentence, error=error)
    finally:
        replaced = list(chain.from_iterable(starmap(_put_back, before.items())))
    if replaced:
        listed = ", ".join(replaced)
        return unsolved(puzzle, f"the answer replaces {listed}, which is not its own to change")
    return outcome


def _others() -> Iterator[tuple[str, ModuleType]]:
    """Yields the modules that no answer changes, without those that cannot be imported."""
    for name in _OTHERS:
        with suppress(ImportError):
            yield name, import_module(name)


@contextmanager
def _without_callbacks() -> Iterator[None]:
    """Refuses what lets a program call Python, which no puzzle needs."""

    def refused(*_: object, **__: object) -> None:
        raise LensError("the program calls Python back as it runs; write it with JAX's operations")

    with ExitStack() as stack:
        with suppress(ImportError):
            import jax.experimental

            for module, name in ((jax, "pure_callback"), (jax.experimental, "io_callback")):
                stack.enter_context(patch.object(module, name, refused))
        yield


def _put_back(name: str, before: Mapping[str, Any]) -> Iterator[str]:
    """Puts back what was replaced in a module, and yields the names."""
    module = import_module(name)
    now = vars(module)
    for entry in set(getattr(module, "__all__", ())) & now.keys() - before.keys():
        value = now.pop(entry)  # loaded meanwhile, if it is what the module loads again
        if getattr(module, entry, None) is not value:
            yield f"`{name}.{entry}`"
    for entry, value in before.items():
        if now.get(entry) is not value:
            now[entry] = value
            yield f"`{name}.{entry}`"


def unsolved(
    puzzle: Puzzle, why: str, facts: Sequence[Fact] = (), error: BaseException | None = None
) -> Outcome:
    """Returns the judgement on an answer that is not right, with the facts that were looked up."""
    return _outcome(puzzle, f"is not solved: {why}", facts, error=error)


def judge(puzzle: Puzzle, names: Mapping[str, Any]) -> Outcome:
    """Judges an answer; remembers nothing."""
    missing = [name for name in takes(puzzle) if name not in names]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        return unsolved(puzzle, f"the answer must define {listed}")
    if not _is_one_of(puzzle.backends):
        needed = " or ".join(puzzle.backends)
        return unsolved(puzzle, f"it is judged on {needed} only, and this is {_backend()}")
    parameters = inspect.signature(puzzle.check).parameters
    facts: list[Fact] = []
    try:
        for fact in puzzle.check(**{n: names[n] for n in parameters if n in names}):
            facts.append(fact)
            if not fact.holds and _is_one_of(fact.backends):
                missed = f"{fact.name}, wanted {fact.wanted}, got {fact.actual}. {fact.hint}"
                return unsolved(puzzle, missed.strip(), facts)
    except LensError as error:
        return unsolved(puzzle, str(error), facts, error)
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "jax":
            return unsolved(puzzle, str(missing_package("it", error)), facts)
        raised = user_error(error)
        # The check itself raised, by what it got: most often a function returns nothing.
        asks = "" if raised.in_answer else f"; {_GIVES}"
        return unsolved(puzzle, f"{raised.sentence}{asks}", facts, error)
    return _outcome(puzzle, f"is solved. {puzzle.after}".strip(), facts, solved=True)


def takes(puzzle: Puzzle) -> tuple[str, ...]:
    """Returns the names that an answer must define: the check's parameters without default."""
    parameters = inspect.signature(puzzle.check).parameters.values()
    return tuple(p.name for p in parameters if p.default is p.empty)


def _backend() -> str:
    try:
        import jax
    except ImportError:
        return "a machine without JAX"
    return jax.default_backend()


def _is_one_of(backends: Sequence[str]) -> bool:
    """Whether this process runs on one of these platforms; any will do if there are none."""
    return not backends or _backend() in backends


def _outcome(
    puzzle: Puzzle,
    what: str,
    facts: Sequence[Fact],
    *,
    solved: bool = False,
    error: BaseException | None = None,
) -> Outcome:
    sentence = f"Puzzle {puzzle.id} {what}"
    sentence += "" if sentence.endswith((".", "?", "!")) else "."
    given = puzzle.id, solved, sentence, tuple(facts), error
    outcome = Outcome(None, lambda: _document(outcome), *given)
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
    if _is_one_of(fact.backends):
        return "differs"
    return f"required on {', '.join(fact.backends)} only"
