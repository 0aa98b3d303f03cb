"""Judging an answer: sentences, exceptions, and what is remembered."""

import numpy as np
import pytest

import jaxlens
from jaxlens.course.check import judge, judged
from jaxlens.course.library import puzzle
from jaxlens.course.puzzle import Fact, Puzzle, at_most, close, equal
from jaxlens.course.trial import run_answer
from jaxlens.errors import OptionError


def made(check, **options):
    hints = ("look", "there", "so")
    return Puzzle("9.9", "t", "task", "f = 0", "f = 1", hints, check, **options)


def is_one(f):
    yield equal("value", f, 1, hint="Try one.")


def test_a_solved_puzzle_says_why():
    outcome = judge(made(is_one, after="One is one."), {"f": 1})
    assert outcome.solved
    assert outcome.sentence == "Puzzle 9.9 is solved. One is one."


def test_a_missing_fact_says_what_was_wanted_and_what_it_suggests():
    outcome = judge(made(is_one), {"f": 2})
    assert outcome.sentence == "Puzzle 9.9 is not solved: value, wanted 1, got 2. Try one."
    assert [(fact.name, fact.holds) for fact in outcome.facts] == [("value", False)]
    assert "wanted" in str(outcome)


def test_an_error_names_no_file_of_the_course():
    outcome = judge(puzzle("1.2"), {"layer": lambda w, b, x: np.maximum(x @ w + b, 0)})
    assert "NumPy needs numbers, and a tracer has none" in outcome.sentence
    assert "method __array__() was called on traced array" in str(outcome)
    assert "puzzle.py" not in str(outcome)


def test_a_function_without_return_is_asked_for_what_it_returns():
    outcome = judge(puzzle("9.1"), {"epochs": lambda data, w: None})
    assert outcome.sentence.endswith("and each function return, what the task asks for?")
    outcome = judge(puzzle("9.1"), {"epochs": lambda data, w: 1 / 0})
    assert "ZeroDivisionError in line" in outcome.sentence
    assert "each function return" not in outcome.sentence


def test_a_name_that_is_not_defined_is_asked_for():
    assert judge(made(is_one), {"g": 1}).sentence.endswith("the answer must define `f`.")


def test_facts_after_the_first_missing_one_are_not_looked_up():
    def check(f):
        yield equal("first", f, 1)
        raise AssertionError("went on")

    assert not judge(made(check), {"f": 2}).solved


def test_an_exception_of_the_answer_is_one_line_with_its_place():
    names = run_answer(puzzle("9.1"), "def f(x):\n    return x + undefined\n")

    def check(f):
        f(1)
        yield equal("never", 0, 1)

    outcome = judge(made(check), names)
    assert "NameError in line 2, `return x + undefined`" in outcome.sentence
    assert isinstance(outcome.error, NameError)
    assert "line 2, in f" in str(outcome)
    assert "test_check" not in outcome.sentence


def test_an_answer_that_exits_is_judged():
    def check(f):
        f()
        yield equal("never", 0, 1)

    outcome = judge(made(check), {"f": exit})
    assert not outcome.solved
    assert "SystemExit" in outcome.sentence


def test_a_recursion_is_shown_by_its_ends():
    def f(x):
        return f(x)

    def check(f):
        yield equal("never", f(1), 1)

    outcome = judge(made(check), {"f": f})
    assert "RecursionError in line" in outcome.sentence
    assert len(str(outcome).splitlines()) < 60


@pytest.mark.parametrize("name", ["jax.jit", "np.cos", "jaxlens.recompiles"])
def test_an_answer_replaces_nothing_of_others(name):
    entry = made(is_one)
    original = eval(name, run_answer(entry, ""))
    outcome = judged(entry, lambda: run_answer(entry, f"import jax\nf = 1\n{name} = f"))
    assert not outcome.solved
    assert f"the answer replaces `{name.replace('np', 'numpy')}`" in outcome.sentence
    assert eval(name, run_answer(entry, "")) is original
    assert judged(entry, lambda: run_answer(entry, "f = 1")).solved


def test_evidence_that_cannot_be_shown_changes_no_judgement():
    def check(f):
        yield equal("value", f, 1, evidence=lambda: 1 / 0)

    outcome = judge(made(check), {"f": 1})
    assert outcome.solved
    assert outcome.evidence is None
    assert "holds" in str(outcome)


def test_a_fact_of_another_backend_is_shown_and_not_required():
    def check(f):
        yield Fact("kernels", "1", "2", False, backends=("tpu",))

    outcome = judge(made(check), {"f": 1})
    assert outcome.solved
    assert "required on tpu only" in str(outcome)


def test_a_puzzle_of_another_backend_says_so():
    outcome = judge(made(is_one, backends=("tpu",)), {"f": 1})
    assert not outcome.solved
    assert "judged on tpu only" in outcome.sentence


def test_facts_in_words():
    assert at_most("bytes", 262144, 1000, unit="B").actual == "262 kB"
    assert close("x", [1.0, 2.0], [1.0, 2.0]).holds
    assert close("x", [[1.0]], [1.0]).actual == "shape (1, 1)"
    assert not close("x", object(), 1.0).holds


def test_an_unknown_puzzle_is_named():
    with pytest.raises(OptionError, match="there is no puzzle '99'"):
        jaxlens.course.check("99", {})


@pytest.mark.backend
def test_check_remembers_what_was_solved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = puzzle("9.1")
    outcome = jaxlens.course.check("9.1", run_answer(entry, entry.solution))
    assert outcome.solved
    assert jaxlens.course.progress().solved >= {"9.1"}
    assert (tmp_path / ".jaxlens-progress.json").exists()
    assert "<" in outcome.html()
