"""The line in a live notebook that says what is waited for, until the answer replaces it."""

from types import SimpleNamespace

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher

from jaxlens import progress
from jaxlens.notebook.widgets.waiting import CellProgress


class Publisher:
    """The front end's side: one entry per output, as a notebook would save them."""

    def __init__(self):
        self.outputs = {}

    def publish(self, data, transient, update):
        assert update == (transient["display_id"] in self.outputs)
        self.outputs[transient["display_id"]] = data


def shell(cell):
    parent = {"metadata": {"cellId": cell} if cell else {}}
    kernel = SimpleNamespace(get_parent=lambda: parent)
    return SimpleNamespace(kernel=kernel, display_pub=Publisher())


def running(shell):
    cell = CellProgress(shell)
    cell.cell_begins()
    return cell


@pytest.fixture
def live():
    return shell("a1")


def test_an_answer_takes_the_place_of_the_line(live, monkeypatch):
    monkeypatch.setattr(progress, "current", lambda: progress.Task("XLA compiles f"))
    cell = running(live)
    line = cell.front_end()
    line.show(progress.Task("XLA compiles <f>"))
    (shown,) = live.display_pub.outputs.values()
    assert "XLA compiles &lt;f&gt;" in shown["text/html"]
    cell.previewed(lambda: "<p>its jaxpr</p>")()
    assert cell.replace({"text/plain": "the answer"})
    assert [*live.display_pub.outputs.values()] == [{"text/plain": "the answer"}]
    assert not cell.replace({"text/plain": "another answer"})


def test_panes_that_are_ready_are_not_sent_again_for_a_second_more(live, monkeypatch):
    cell = running(live)
    line = cell.front_end()
    task = progress.Task("XLA compiles f")
    monkeypatch.setattr(progress, "current", lambda: task)
    line.show(task)
    cell.previewed(lambda: "<p>its jaxpr</p>")()
    (shown,) = live.display_pub.outputs.values()
    assert "its jaxpr" in shown["text/html"]
    live.display_pub.outputs[next(iter(live.display_pub.outputs))] = "as the reader scrolled it"
    line.show(task)
    assert [*live.display_pub.outputs.values()] == ["as the reader scrolled it"]


def test_an_interrupted_cell_says_what_was_interrupted(live):
    cell = running(live)
    cell.front_end().show(progress.Task("XLA compiles f", lambda: "HLO passes"))
    cell.cell_done(SimpleNamespace(error_in_exec=KeyboardInterrupt()))
    (kept,) = live.display_pub.outputs.values()
    assert kept == {"text/plain": "Interrupted after 0 s: XLA compiles f: HLO passes."}


def test_a_cell_without_an_answer_keeps_nothing_of_it(live):
    cell = running(live)
    cell.front_end().show(progress.Task("XLA compiles f"))
    cell.cell_done(SimpleNamespace(error_in_exec=None))
    assert [*live.display_pub.outputs.values()] == [{}]


def test_a_step_that_outlives_its_cell_shows_nothing_more(live):
    cell = running(live)
    line = cell.front_end()
    line.show(progress.Task("XLA compiles f"))
    cell.cell_done()
    line.show(progress.Task("XLA compiles f"))
    assert [*live.display_pub.outputs.values()] == [{}]


def test_there_is_no_line_between_cells_nor_in_what_records_the_messages_of_a_kernel(live):
    assert running(shell("")).front_end() is None
    cell = running(live)
    cell.cell_done()
    assert cell.front_end() is None


def test_a_magic_that_captures_displays_does_not_capture_the_line(live):
    cell = running(live)
    cell.look_begins()
    outside, live.display_pub = live.display_pub, CapturingDisplayPublisher()
    cell.front_end().show(progress.Task("XLA compiles f"))
    assert len(outside.outputs) == 1
    assert live.display_pub.outputs == []


def test_a_cell_whose_displays_the_user_captures_gets_no_line(live):
    live.display_pub = CapturingDisplayPublisher()
    cell = running(live)
    cell.look_begins()
    assert cell.front_end() is None
