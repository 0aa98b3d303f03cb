"""The lens widget: its answers are those of the verbs, and its error messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.notebook.widgets.questions import QUESTIONS
from tests.support.jax_events import Compiles

W, X = np.ones((8, 4), np.float32), np.ones(8, np.float32)
traced = {True}


def loss(w, x):
    traced.add(isinstance(x, jax.core.Tracer))
    return jnp.sum(jnp.tanh(x @ w))


@pytest.fixture
def panel():
    widget = jaxlens.Lenses(jax.grad(loss), W, X)
    yield widget
    widget.close()


def test_nothing_is_traced_before_a_question() -> None:
    seen = []
    widget = jaxlens.Lenses(lambda x: seen.append(x), X)
    assert widget.shown is None
    assert not seen
    assert not widget.sentences
    assert [row.question for row in widget._rows.values()][
        -1
    ] == "How many operations must wait for one another?"
    widget.close()


def test_one_compile_answers_every_question_in_a_sentence() -> None:
    widget = jaxlens.Lenses(lambda w, x: jnp.tanh(x @ w).sum(), W, X)
    with Compiles() as compiles:
        widget.ask("cost")
        told = {"key", "times", "fusion", "memory", "cost", "sharding", "captured", "tree"}
        assert told <= widget.sentences.keys()
        assert not {"tape", "bytecode", "ladder"} & widget.sentences.keys()  # these trace again
        assert widget.sentences["cost"] == widget.shown.findings[0]
        assert widget.sentences["memory"].text in widget._rows["memory"].sentence
        for name in ("times", "fusion", "captured", "memory"):
            widget.ask(name)
            assert widget.sentences[name] == widget.shown.findings[0]
        widget.answer_all()
    assert len(compiles.names) == 1
    assert widget.sentences.keys() == QUESTIONS.keys()
    assert "needs a transformed function" in widget.sentences["ladder"].text
    widget.close()


def test_what_a_closed_kernel_leaves_is_the_list_above_the_answer_that_was_open(panel) -> None:
    assert panel.kept() is None
    panel.ask("cost")
    text, markup = panel.kept().text(width=200), panel.kept().html()
    assert text.splitlines()[0].startswith("grad(loss)(w, x)")
    for name, question in QUESTIONS.items():
        assert question.about.sentence in text
        if name in panel.sentences:
            assert " ".join(panel.sentences[name].text.split()[:4]) in text
    assert "Flops by line" in text
    assert "not&nbsp;asked&nbsp;yet" in markup or "not asked yet" in markup
    panel._rows["cost"].expanded = False
    assert panel.shown is None
    assert "Flops by line" not in panel.kept().text()


def test_a_capture_is_asked_as_it_is() -> None:
    cap = jaxlens.capture(jax.grad(loss), W, X)
    widget = jaxlens.Lenses(cap)
    widget.ask("memory")
    assert widget.shown.capture is widget.capture is cap
    widget.ask("key")
    assert "a capture has no cache key" in widget.sentences["key"].text
    widget.close()


VERBS = [name for name in QUESTIONS if name not in ("against", "key", "times")]


@pytest.mark.parametrize("name", VERBS)
def test_each_question_gets_what_its_verb_says(panel, name) -> None:
    panel.ask(name)
    assert str(panel.shown) == str(getattr(jaxlens, name)(jax.grad(loss), W, X))
    assert panel._room.words == ""
    assert traced == {True}  # never run


def test_the_key_of_a_call_is_looked_up() -> None:
    widget = jaxlens.Lenses(jax.jit(loss), W, X)
    widget.ask("key")
    assert widget.shown.hit is False
    widget.close()


def test_what_is_switched_on_is_tried(panel) -> None:
    panel.ask("memory")
    assert not panel.shown.tried
    panel.ask("memory", checkpoint=True)
    assert panel.shown.tried
    panel.ask("cost", roofline="h100")
    assert panel.shown.limits.name == "H100 SXM"
    panel.ask("times")
    assert panel.shown.trial is None


def test_what_changed_is_asked_of_what_the_notebook_holds(panel, monkeypatch) -> None:
    from jaxlens.notebook.widgets import questions

    before = jaxlens.capture(lambda x: jnp.sin(x), X)
    names = {"before": before, "seen": jaxlens.jaxpr(before), "x": X, "loss": loss}
    monkeypatch.setattr(questions, "_names", lambda: names)
    panel.ask("against")
    assert "choose what to compare with" in panel._room.words
    assert panel._fields["before"].options == ("(none)", "before", "seen")
    panel.ask("against", before="seen")
    assert panel._room.words == ""
    assert panel.shown.figures == jaxlens.compare(before, panel.capture).figures


def test_one_program_answers_all(panel, monkeypatch) -> None:
    panel.ask("cost")
    first = panel.shown
    panel.ask("captured")
    panel.ask("cost")
    assert panel.shown is first
    assert first.capture is panel.capture


def test_what_cannot_be_asked_is_one_line(panel) -> None:
    with pytest.raises(jaxlens.LensError, match="no question 'costs'; did you mean 'cost'"):
        panel.ask("costs")
    with pytest.raises(jaxlens.LensError, match="memory has no 'checkpoints'"):
        panel.ask("memory", checkpoints=True)
    with pytest.raises(jaxlens.LensError, match="tape has no 'scan'; it is told nothing"):
        panel.ask("tape", scan=True)


def test_another_question_takes_the_answer_away(panel) -> None:
    panel.ask("cost")
    assert panel._room._place.children
    panel.ask("against")  # of nothing yet
    assert not panel._room._place.children
    assert panel.shown is None


def test_a_refusal_is_told_and_no_name_is_markup() -> None:
    def refuses(x):
        raise ValueError("<script>alert(1)</script>")

    widget = jaxlens.Lenses(refuses, X)
    widget.ask("cost")
    assert "ValueError" in widget._room.words
    assert "<script>" not in widget._room.words
    assert widget.shown is None
    widget.close()


def test_without_a_front_end_its_text_says_what_it_answers():
    panel = jaxlens.Lenses(lambda x: x * 2, np.ones(3, np.float32))
    bundle = panel._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Nothing was asked of it yet. It answers:")
    assert "Which line owns the memory peak?" in bundle["text/html"]
