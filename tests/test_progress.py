"""What is shown while jaxlens works: after a second, until the work is done, and then nothing."""

import io
import threading
import time

import pytest

from jaxlens import progress


class Recorded:
    """A display that keeps what it showed."""

    def __init__(self):
        self.sentences, self.cleared = [], threading.Event()

    def show(self, task):
        self.sentences.append((task.sentence, task.last))

    def clear(self):
        self.cleared.set()


@pytest.fixture
def display(monkeypatch):
    display = Recorded()
    monkeypatch.setattr(progress, "front_end", lambda: display)
    monkeypatch.setattr(progress, "SILENT", 0.05)
    monkeypatch.setattr(progress, "_EVERY", 0.02)
    monkeypatch.setattr(progress, "_last", {})
    return display


def test_short_work_shows_nothing(display, monkeypatch):
    monkeypatch.setattr(progress, "SILENT", 5)
    with progress.step("JAX traces f"):
        pass
    assert not display.sentences
    assert not display.cleared.is_set()


def test_the_step_that_began_last_shows_and_then_nothing(display):
    with progress.step("jaxlens looks at f"):
        time.sleep(0.15)
        with progress.step("XLA compiles f", lambda: "machine code"):
            time.sleep(0.15)
    assert display.sentences[0] == ("jaxlens looks at f", None)
    assert display.sentences[-1] == ("XLA compiles f: machine code", None)
    assert display.cleared.is_set()
    assert progress.current() is None
    assert progress.shown() is None


def test_a_step_may_show_in_place_of_its_parts(display):
    with (
        progress.step("jaxlens tries jax.checkpoint", lambda: "3 of 5", whole=True),
        progress.step("XLA compiles f"),
    ):
        time.sleep(0.15)
    assert {*display.sentences} == {("jaxlens tries jax.checkpoint: 3 of 5", None)}


def test_the_seconds_of_last_time_are_known_only_of_work_that_was_done(display):
    with pytest.raises(KeyboardInterrupt), progress.step("XLA compiles f"):
        raise KeyboardInterrupt
    for _ in range(2):
        with progress.step("XLA compiles f"):
            time.sleep(0.15)
    known = [last for _, last in display.sentences]
    assert known[0] is None
    assert known[-1] == pytest.approx(0.15, abs=0.14)


def test_idle_work_is_done_once_and_only_while_something_shows(display):
    calls = []
    with progress.when_idle(lambda: calls.append(1)), progress.step("XLA compiles f"):
        progress.idle()
        assert calls == []
        deadline = time.perf_counter() + 10
        while not calls and time.perf_counter() < deadline:
            progress.idle()
        progress.idle()
    assert calls == [1]


def test_idle_work_that_fails_does_not_end_what_is_waited_for(display):
    calls = []

    def fails():
        calls.append(1)
        raise ValueError

    with progress.when_idle(fails), progress.step("XLA compiles f"):
        deadline = time.perf_counter() + 10
        while not calls and time.perf_counter() < deadline:
            progress.idle()
    assert calls == [1]


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_that_leaves_nothing(monkeypatch):
    written = _Terminal()
    monkeypatch.setattr("sys.stderr", written)
    bar = progress.TerminalBar()
    bar.show(progress.Task("XLA compiles f", lambda: "machine code", 4.0))
    bar.clear()
    assert "XLA compiles f: machine code" in written.getvalue()
    assert "last time 4 s" in written.getvalue()
    assert written.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip() == ""
