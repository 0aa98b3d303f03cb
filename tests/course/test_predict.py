"""Predictions: the truth is computed, and folded until there is an answer."""

import gc

import jax
import pytest

import jaxlens
from jaxlens.course.predict import predictions
from jaxlens.errors import OptionError

pytestmark = pytest.mark.backend


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("id", predictions())
def test_the_truth_is_computed(id):
    prediction = predictions()[id]
    truth = prediction.truth(prediction.names())
    assert truth.value is not None
    if prediction.choices:
        assert truth.value in prediction.choices
    else:
        assert isinstance(truth.value, int | float)
    assert prediction.why.endswith(".")


def test_without_an_answer_the_text_shows_the_question_only():
    text = str(jaxlens.course.predict("7.a"))
    assert "How often is `f` compiled?" in text
    assert "The answer is" not in text


def test_an_answer_stands_beside_the_truth():
    reply = jaxlens.course.predict("7.a", 4)
    assert reply.right
    assert str(reply).startswith("Right: you said 4, it is 4.")
    assert str(jaxlens.course.predict("7.a", 5)).startswith("Not quite: you said 5, it is 4.")


def test_what_is_no_answer_is_refused():
    with pytest.raises(OptionError, match="takes a number"):
        jaxlens.course.predict("7.a", "many")
    with pytest.raises(OptionError, match="no prediction"):
        jaxlens.course.predict("99.z")


def test_arrays_of_a_program_do_not_wait_for_the_garbage_collector():
    def large():
        return sum(array.shape == (1500, 1500) for array in jax.live_arrays())

    gc.collect()
    gc.disable()
    try:
        before = large()
        assert str(jaxlens.course.predict("25.b", "line 3"))
        assert large() == before
    finally:
        gc.enable()
