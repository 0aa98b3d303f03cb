"""Sentences, steps and lanes of runs that are written down here, with times counted by hand."""

import pytest

from jaxlens.ir.run.timeline import CodeLine, Dispatch, Execution, RunTimeline, Wait
from jaxlens.lenses.timeline.facts import Step, facts, repeated, waiter
from jaxlens.lenses.timeline.report import report
from jaxlens.running import answer

STEP = CodeLine("cell 3:4", "w, loss = step(w, x)")
LOSS = CodeLine("cell 3:5", "loss_value = float(loss)")


def waiting_loop(turns: int) -> RunTimeline:
    """Each turn takes 10 s: 1 to dispatch, 8 of waiting, 1 of the rest of Python."""
    starts = [10.0 * turn for turn in range(turns)]
    return RunTimeline(
        10.0 * turns,
        tuple(Dispatch("step", start, 1.0, STEP) for start in starts),
        tuple(Wait(start + 1, 8.0, LOSS, "step") for start in starts),
        tuple(Execution("CPU 0", "step", start + 1, 8.0, STEP) for start in starts),
    )


def queued_loop(turns: int) -> RunTimeline:
    """Python is done after a second per turn, the device after eight."""
    return RunTimeline(
        1.0 * turns,
        tuple(Dispatch("step", float(turn), 1.0, STEP) for turn in range(turns)),
        (),
        tuple(Execution("CPU 0", "step", 8.0 * turn, 8.0, STEP) for turn in range(turns)),
    )


def test_a_loop_that_waits() -> None:
    run = facts(waiting_loop(20))
    assert (run.dispatched, run.waits, run.waiting) == (20, 20, 160.0)
    assert run.most_queued == 1
    assert run.behind == 0
    (device,) = run.devices
    assert (device.executing, device.after) == (160.0, 0.0)
    step, loss = run.lines
    assert (step.line, dict(step.dispatches), step.waits) == (STEP, {"step": 20}, 0)
    assert (loss.line, loss.waits, loss.waiting, loss.waiter) == (LOSS, 20, 160.0, "float(...)")
    assert step.executing == 160.0
    assert [finding.text for finding in report(run).findings] == [
        "Python waits for the device 20 times, at cell 3:5, `loss_value = float(loss)`, for step, "
        "which cell 3:4 dispatches.",
        "There is a wait between any two dispatches: nothing is queued, and the device has nothing "
        "to do until Python dispatches the next program.",
    ]


def test_a_loop_that_does_not_wait() -> None:
    run = facts(queued_loop(4))
    assert (run.waits, run.most_queued, run.behind) == (0, 4, 4)
    (device,) = run.devices
    assert (device.executing, device.after) == (4.0, 28.0)
    assert report(run).findings[0].text == (
        "Python waits for nothing: it dispatches 4 programs and goes on. The cell is done before "
        "the device is."
    )


def test_programs_that_overlap_on_a_device_count_once() -> None:
    two = (Execution("CPU 0", "a", 0.0, 6.0), Execution("CPU 0", "b", 2.0, 2.0))
    (device,) = facts(RunTimeline(10.0, executions=two)).devices
    assert device.executing == 6.0


def test_waits_at_several_lines_the_most_frequent_first() -> None:
    lines = [CodeLine(f"train.py:{n}", f"print(x{n})") for n in range(5)]
    waits = [Wait(float(10 * n + k), 0.5, lines[n]) for n in range(5) for k in range(n + 1)]
    sentence = report(facts(RunTimeline(60.0, waits=tuple(waits)))).findings[0].text
    assert sentence == (
        "Python waits for the device 15 times: 5 times at train.py:4, `print(x4)`; 4 times at "
        "train.py:3, `print(x3)`; 3 times at train.py:2, `print(x2)`; the others at 2 more lines."
    )


def test_what_ran_at_once_and_what_was_compiled_say_so() -> None:
    small = Dispatch("small", 0.0, 2.0, STEP, at_once=True)
    first = Dispatch("step", 3.0, 9.0, STEP, compiling=8.0)
    run = facts(RunTimeline(20.0, (small, small, first)))
    texts = [finding.text for finding in report(run).findings]
    assert run.most_queued == 1
    assert any(
        text.startswith("Computed within the call, not queued: small x 2.") for text in texts
    )
    assert any(text.startswith("Compiled within the cell: step.") for text in texts)


def test_what_is_not_known_is_said() -> None:
    run = facts(RunTimeline(1.0, unknown="a profiler session of yours is running"))
    (finding,) = report(run).findings
    assert finding.text == "Unknown: a profiler session of yours is running."
    assert finding.trust == "unknown"


def test_steps_that_repeat_are_one_group() -> None:
    a, b, c = (Step("dispatches", name, STEP) for name in "abc")
    assert repeated([a, b, a, b, a, b, c]) == ((3, (a, b)), (1, (c,)))
    assert repeated([a, b, c, a]) == ((1, (a, b, c, a)),)
    assert repeated([c, a, a, a, a]) == ((1, (c,)), (4, (a,)))
    assert repeated([]) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss_value = float(loss)", "float(...)"),
        ("history.append(np.asarray(w))", "np.asarray"),
        ("print(float(loss))", "float(...)"),
        ("print(loss)", "print(...)"),
        ("y = f(x).block_until_ready()", "block_until_ready"),
        ("if loss > best:", "if"),
        ("total += loss.item()", ".item()"),
        ('log(f"{loss:.3f}")', "an f-string"),
        ("best = loss", ""),
    ],
)
def test_what_waits_is_read_off_the_line(text: str, words: str) -> None:
    assert waiter(text) == words


def test_the_text_has_no_times_and_the_same_steps() -> None:
    text = str(answer(waiting_loop(20), "cell"))
    assert "20 times  cell 3:4  dispatches step  w, loss = step(w, x)" in text
    assert "          cell 3:5  waits for step   loss_value = float(loss)" in text
    assert "Measured: left out" in text
    assert " s" not in text.replace(" step", "").partition("Lines")[0].replace(" so", "")[:40]
    slower = RunTimeline(
        400.0, *(getattr(waiting_loop(20), name) for name in ("dispatches", "waits", "executions"))
    )
    assert str(answer(slower, "cell")) == text


def test_html_has_lanes_and_measured_times() -> None:
    shown = answer(waiting_loop(3), "cell")
    html = shown.html()
    assert "data:image/svg+xml," in html
    assert "<table class=volatile" in html
    assert "27" not in str(shown)  # seconds
    assert "24&nbsp;s" in html
