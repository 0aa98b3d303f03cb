"""What a question declares to need is what its answer takes: XLA's compiles are counted by JAX."""

from itertools import permutations

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens import answers
from jaxlens.questions import rows
from tests.support.jax_events import Compiles

# Those that compile programs of their own, to run them.
RUNNING = {"dispatch", "miscompile", "nan", "numerics", "silent", "values"}
# Those that are asked of one program, each once.
ASKED = {
    question.name: question
    for question in rows()
    if question.verb and question.name not in {"against", "without", "kernel", "fits", *RUNNING}
    if not (question.name == "captured" and question.verb == "jaxpr")
}
# One question for each need that there is: what two take together is told by their needs.
PAIRS = list(permutations({question.needs: name for name, question in ASKED.items()}.values(), 2))


def step(w, x):
    return jnp.sum(jnp.tanh(x @ w))


def captured():
    return jaxlens.capture(jax.grad(step), jnp.ones((4, 3)), jnp.ones(4))


def compiles(ask):
    """How many programs are compiled while a capture is made and asked."""
    capture = captured()  # whose arguments JAX makes by programs of its own
    with Compiles() as heard:
        ask(capture)
    return len(heard.names)


def answer(name, capture):
    """All that an answer has: facts, report and output."""
    asked = answers.ask(ASKED[name], capture)
    assert asked.report
    assert asked.document.blocks


def expected(*needs):
    """Compiles for needs that are met one after another: one, and one for a profile not recorded.

    Of so small a program each compile dumps all passes.
    """
    compiled = [need for need in needs if need.compiled or need.passes or need.profile]
    late = any(need.profile for need in compiled[1:]) and not compiled[0].profile
    return bool(compiled) + late


@pytest.mark.parametrize("name", ASKED)
def test_a_question_takes_no_more_than_it_declares(name):
    def ask(capture):
        answer(name, capture)

    needs = ASKED[name].needed(captured(), {})
    assert compiles(ask) == expected(needs) <= 1


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_questions_gathered_take_one_compile(first, second):
    def ask(capture):
        needs = ASKED[first].needed(capture, {}) | ASKED[second].needed(capture, {})
        capture.gather(needs)
        answer(first, capture)
        answer(second, capture)

    assert compiles(ask) <= 1


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_asked_one_after_another_only_what_is_missing_is_compiled_for(first, second):
    def ask(capture):
        answer(first, capture)
        answer(second, capture)

    needs = [ASKED[name].needed(captured(), {}) for name in (first, second)]
    assert compiles(ask) == expected(*needs) <= 2


def test_a_verb_that_shows_several_gathers_first():
    def ask(capture):
        options = {"why": True, "cost": True, "memory": True, "captured": True, "times": True}
        assert str(jaxlens.compile(capture, **options))

    assert compiles(ask) == 1
