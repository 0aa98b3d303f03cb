"""Predictions: the truth is computed, and folded until there is an answer."""

import gc

import jax
import pytest

import jaxlens
from jaxlens.course.predict import Prediction, Reply, Truth, predictions
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
    text = str(jaxlens.course.predict("9.a"))
    assert "How often is `f` compiled?" in text
    assert "The answer is" not in text


def test_the_choices_are_there_to_click():
    reply = jaxlens.course.predict("3.a")
    assert "Right:" not in str(reply)
    assert "<summary>nothing</summary>" in reply.html()
    full = reply.text(full=True)
    assert full.count("No: it is a tracer.") == 2
    assert full.count("Right: it is a tracer.") == 1


def test_an_answer_stands_beside_the_truth():
    reply = jaxlens.course.predict("9.a", 4)
    assert reply.right
    assert str(reply).startswith("Right: you said 4, it is 4.")
    assert str(jaxlens.course.predict("9.a", 5)).startswith("Not quite: you said 5, it is 4.")


def test_what_is_no_answer_is_refused():
    for text in ("many", "9**9**9", "1/0", "1 2", "__import__('os')"):
        with pytest.raises(OptionError, match="takes a number"):
            jaxlens.course.predict("9.a", text)
    with pytest.raises(OptionError, match="takes one of `the numbers`, `a tracer`, `nothing`; got"):
        jaxlens.course.predict("3.a", "n")
    with pytest.raises(OptionError, match="no prediction"):
        jaxlens.course.predict("99.z")


@pytest.mark.parametrize(
    ("id", "answer", "right"),
    [
        ("1.a", "two", True),
        ("1.a", "1+1", True),
        ("1.a", "2 equations", True),
        ("1.a", " (1 + 3) / 2", True),
        ("1.a", "3", False),
        ("3.a", "tracer", True),
        ("3.a", "The numbers", False),
        ("3.a", "noth", False),
        ("7.a", "bf16", True),
        ("13.b", "2", True),
        ("13.b", "100", False),
        ("15.a", "second", True),
        ("5.c", "y", True),
        ("17.b", "none", True),
        ("13.c", "80 MB", False),
    ],
)
def test_an_answer_may_be_said_in_many_ways(id, answer, right):
    assert jaxlens.course.predict(id, answer).right == right


def test_a_unit_may_have_a_prefix():
    def of(text, value, unit):
        made = Prediction("1.z", "?", "", lambda names: Truth(value, None, unit), "Why.")
        return Reply(None, lambda: None, made, text).right

    assert of("16 kB", 16000, "B")
    assert of("16 KiB", 16384, "B")
    assert of("16000", 16000, "B")
    assert of("80 MB", 80, "MB")
    assert of("80", 80, "MB")
    assert of("80000 kB", 80, "MB")
    assert not of("80 kB", 80, "MB")


def test_an_answer_that_is_near_is_told():
    assert str(jaxlens.course.predict("13.c", "401")).startswith("Near")


def test_arrays_of_a_program_do_not_wait_for_the_garbage_collector():
    def large():
        return sum(array.shape == (1500, 1500) for array in jax.live_arrays())

    gc.collect()
    gc.disable()
    try:
        before = large()
        assert str(jaxlens.course.predict("27.b", "line 3"))
        assert large() == before
    finally:
        gc.enable()
