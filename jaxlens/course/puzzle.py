"""A puzzle of the course: data, and one function that asks the compiler for facts.

The function (`Puzzle.check`) takes what the answer defined, by name, and yields facts, the most
basic first. The runner in `check.py` stops at the first fact that does not hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from jaxlens.render.document import Tab, Tabs
from jaxlens.report import amount
from jaxlens.views.view import View


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about an answer, as JAX, XLA or a run gave it.

    Attributes:
        name: What was looked up ("compiles").
        wanted: What it must be, in words ("at most 1").
        actual: What it is, in words ("6").
        holds: Whether it is what was wanted.
        hint: What this value suggests, in a sentence; shown where the fact does not hold.
        evidence: Makes the answer of the lens that shows the fact; None where none does.
        backends: Platforms on which the fact is required; empty for all. Elsewhere it is shown
            and not required.
    """

    name: str
    wanted: str
    actual: str
    holds: bool
    hint: str = ""
    evidence: Callable[[], View[Any]] | None = None
    backends: tuple[str, ...] = ()


Facts = Iterator[Fact]
Function = Callable[..., Any]  # most often what an answer defines


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A likely wrong answer.

    Attributes:
        code: Source of the answer.
        says: Part of the sentence or hint that the learner must get for it.
    """

    code: str
    says: str


@dataclass(frozen=True, slots=True)
class Puzzle:
    """One exercise.

    Attributes:
        id: Lesson and number, "9.1".
        title: A few words.
        task: What to do, in Markdown: at most a screen.
        starter: Source that the learner begins with; it must not pass.
        solution: Source that passes.
        hints: Three, each more specific: what to look at, where, the idea.
        check: Takes the names that an answer defines and yields facts.
        wrong: Likely wrong answers.
        cheats: Answers that the task's example takes for right, such as a constant; not those
            that `trial.py` makes of every solution.
        after: A sentence or two shown with the solved puzzle: why it holds.
        backends: Platforms that the puzzle can be judged on; empty for all.
        saves: The name under which the answer joins the learner's own JAX (`course/own.py`); ""
            if it does not.
        seconds: Limit for a check, in seconds.
    """

    id: str
    title: str
    task: str
    starter: str
    solution: str
    hints: tuple[str, str, str]
    check: Callable[..., Facts]
    wrong: tuple[WrongAnswer, ...] = ()
    cheats: tuple[WrongAnswer, ...] = ()
    after: str = ""
    backends: tuple[str, ...] = ()
    saves: str = ""
    seconds: float = 10.0

    @property
    def lesson(self) -> int:
        """The number of its lesson."""
        return lesson_of(self.id)


def lesson_of(id: str) -> int:
    """Returns the number of the lesson of a puzzle or prediction: 7 of "7.1"."""
    return int(id.partition(".")[0])


def edited(text: str, *edits: tuple[str, str]) -> str:
    """Returns source with parts replaced: a starter or a wrong answer, made of the solution.

    Args:
        text: The source.
        *edits: What stands there once, and what replaces it.

    Raises:
        ValueError: A part is not there exactly once.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"expected once, got {text.count(old)} times: {old!r}")
        text = text.replace(old, new)
    return text


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence: a verb of jaxlens and its arguments, called when it is shown."""

    verb: Callable[..., View[Any]]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> View[Any]:
        return self.verb(*self.args, **self.options)


def evidence_pane(evidence: View[Any], lead: str = "") -> Tabs:
    """Returns a view as a pane; a jaxpr shows its text, since equations are asked for.

    Args:
        evidence: The view.
        lead: Words before its first line, which becomes the title.
    """
    shown = evidence.document
    blocks = shown.blocks
    if shown.verb == "jaxpr":
        text = ("source", "jaxpr")
        blocks = tuple(
            replace(b, open=text, chain=()) if isinstance(b, Tabs) else b for b in blocks
        )
    return Tabs((Tab(f"{lead}{shown.taken}", blocks, key="evidence"),), shown.verb)


def at_most(
    name: str,
    value: float,
    limit: float,
    *,
    unit: str = "",
    hint: str = "",
    evidence: Callable[[], View[Any]] | None = None,
    backends: tuple[str, ...] = (),
) -> Fact:
    """Returns the fact that a figure is at most `limit`."""
    wanted, actual = f"at most {figure(limit, unit)}", figure(value, unit)
    return Fact(name, wanted, actual, value <= limit, hint, evidence, backends)


def at_least(
    name: str,
    value: float,
    limit: float,
    *,
    unit: str = "",
    hint: str = "",
    evidence: Callable[[], View[Any]] | None = None,
) -> Fact:
    """Returns the fact that a figure is at least `limit`."""
    wanted, actual = f"at least {figure(limit, unit)}", figure(value, unit)
    return Fact(name, wanted, actual, value >= limit, hint, evidence)


def equal(
    name: str,
    value: Any,
    wanted: Any,
    *,
    hint: str = "",
    evidence: Callable[[], View[Any]] | None = None,
) -> Fact:
    """Returns the fact that a value (number, word, list of words) is `wanted`."""
    return Fact(name, words(wanted), words(value), value == wanted, hint, evidence)


def close(
    name: str,
    value: Any,
    wanted: Any,
    *,
    rtol: float = 1e-4,
    hint: str = "",
    evidence: Callable[[], View[Any]] | None = None,
) -> Fact:
    """Returns the fact that arrays have the same shape and nearly the same elements.

    Args:
        name: What the value is ("the value at x = 3").
        value: Array or number that the answer computed.
        wanted: Array or number that is right.
        rtol: Relative tolerance; the absolute one is the same.
        hint: What a wrong value suggests.
        evidence: Makes the answer of the lens that shows it.
    """
    right = np.asarray(wanted)
    if value is None:
        hint = "The function returns nothing: is there a `return`?"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufcV":
        found = "nothing yet" if value is ... else type(value).__name__
        return Fact(name, words(right), found, False, hint, evidence)
    if array.shape != right.shape:
        return Fact(name, f"shape {right.shape}", f"shape {array.shape}", False, hint, evidence)
    same = bool(np.allclose(array, right, rtol=rtol, atol=rtol, equal_nan=True))
    return Fact(name, words(right), words(array), same, hint, evidence)


def as_program(f: Function, *args: Any) -> Any:
    """Calls a function as one program: what it does where it is given arrays counts for nothing.

    A check that takes facts of the program must take the values of it too.
    """
    import jax

    return jax.jit(lambda *xs: f(*xs))(*args)  # a new function: nothing is remembered


def by_jax(name: str, value: Any) -> Fact:
    """Returns the fact that a value is an array of JAX's: NumPy compiles nothing."""
    import jax

    hint = "NumPy did the work, beside the program."
    kind = "JAX" if isinstance(value, jax.Array) else type(value).__name__
    return Fact(f"what made {name}", "JAX", kind, kind == "JAX", hint)


def traced(f: Function, *args: Any) -> Fact:
    """Returns the fact that JAX can trace a function; the evidence says where and why it cannot.

    Args:
        f: The function.
        *args: The arguments to trace it at.

    Raises:
        Exception: What the function raised, if it has nothing to do with tracing.
    """
    import jax

    try:
        jax.eval_shape(lambda *xs: f(*xs), *args)  # a new function: nothing is remembered
    except Exception as error:
        if not type(error).__module__.startswith("jax"):
            raise
        kind = type(error).__name__
        evidence = partial(_explained, error)
        return Fact("under jit", "a program", kind, False, evidence=evidence)
    return Fact("under jit", "a program", "a program", True)


def _explained(error: Exception) -> View[Any]:
    """Shows why a trace failed. What to write instead is the puzzle, and left out."""
    import jaxlens

    view = jaxlens.explain(error, remedies=False)
    if view is None:
        raise error
    return view


def figure(value: float, unit: str = "") -> str:
    """Formats a figure: `6`, `16.1 Mflop`, `262 kB`."""
    if unit:
        return amount(value, unit)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def words(value: Any) -> str:
    """Formats a value in a few words; of a large array the first elements."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{n} {name}" for name, n in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        entries = sorted(value) if isinstance(value, set | frozenset) else value
        return ", ".join(map(str, entries)) or "none"
    if isinstance(value, np.ndarray | np.generic):
        flat = np.asarray(value).ravel()
        first = " ".join(f"{x:.4g}" for x in flat[:4].tolist())
        return first + (" ..." if flat.size > 4 else "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
