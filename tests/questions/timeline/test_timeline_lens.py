"""Sentences and lanes of runs that are written down here, with times counted by hand."""

import re
from dataclasses import replace

import pytest

from jaxlens.questions.timeline.events import (
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    CodeLine,
    Dispatch,
    Execution,
    RunTimeline,
    Wait,
)
from jaxlens.questions.timeline.facts import facts
from jaxlens.questions.timeline.report import report
from jaxlens.questions.timeline.verbs import answer
from jaxlens.render.document import Picture

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
    assert (loss.line, loss.waits, loss.waiting) == (LOSS, 20, 160.0)
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


EAGER = [CodeLine("cell 4:2", "h = sin(x) * 2", True), CodeLine("cell 4:3", "x = h - x * h", True)]
PASS = [(EAGER[0], "sin"), (EAGER[0], "multiply"), (EAGER[1], "multiply"), (EAGER[1], "subtract")]


@pytest.mark.parametrize(
    ("before", "passes", "expected"),
    [
        ([], 5, ({"sin": 1, "multiply": 2, "subtract": 1}, 5)),
        ([(EAGER[0], "convert"), *PASS[1:]], 4, ({"sin": 1, "multiply": 2, "subtract": 1}, 4)),
        ([(EAGER[0], name) for name in "abcdefgh"], 2, None),
        ([], 1, None),
    ],
)
def test_dispatches_that_a_loop_repeats(before, passes, expected) -> None:
    row = [*before, *PASS * passes]
    dispatches = (Dispatch(name, float(n), 0.5, line) for n, (line, name) in enumerate(row))
    run = facts(RunTimeline(100.0, tuple(dispatches)))
    assert run.repeated == expected
    said = [finding.text for finding in report(run).findings if "repeats" in finding.text]
    assert said == (
        []
        if expected is None
        else [
            f"The loop repeats the same 4 dispatches {passes} times (sin, multiply x 2 and "
            "subtract): a pass under one jax.jit would be one dispatch."
        ]
    )


def test_programs_that_overlap_on_a_device_count_once() -> None:
    two = (Execution("CPU 0", "a", 0.0, 6.0), Execution("CPU 0", "b", 2.0, 2.0))
    (device,) = facts(RunTimeline(10.0, executions=two)).devices
    assert device.executing == 6.0


def test_a_device_is_idle_between_executions_up_to_the_last_wait() -> None:
    # Of 29 s, from the first dispatch to the end of the last wait, it executes 3 x 8
    looped = replace(LOSS, in_loop=True)
    run = waiting_loop(3)
    known = facts(replace(run, waits=tuple(replace(w, line=looped) for w in run.waits)))
    assert known.idle == pytest.approx(5 / 29)
    finding = report(known).findings[0]
    assert finding.text.startswith("The loop waits for the device 3 times, at cell 3:5")
    assert finding.measured == finding.text[:-1] + ": the device is idle 17% of the time."
    assert facts(queued_loop(3)).idle is None


def test_two_devices_of_which_one_does_nothing_half_of_the_time() -> None:
    run = waiting_loop(2)
    other = (Execution("CPU 1", "step", 1.0, 8.0), Execution("CPU 1", "step", 5.0, 4.5))
    known = facts(replace(run, executions=run.executions + other))
    assert known.idle == pytest.approx(1 - (16 + 8.5) / 2 / 19)
    assert "2 devices are idle" in report(known).findings[0].measured


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


def test_the_text_has_no_times() -> None:
    text = str(answer(waiting_loop(20), "cell"))
    assert "20 dispatches and 20 waits of Python; executions on CPU 0." in text
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


def test_lanes_stand_for_what_was_recorded_and_are_short() -> None:
    """Copies have lanes of their own; of many bars the longest are drawn."""
    run = waiting_loop(2)
    many = tuple(Activity(FROM_DEVICE, f"dot.{n}", n / 50, n / 1e5) for n in range(900))
    copy = Activity(TO_DEVICE, "DevicePut", 0.25, 0.5, STEP)
    (picture,) = (
        block
        for block in answer(replace(run, activities=(copy, *many)), "cell").document.blocks
        if isinstance(block, Picture)
    )
    bars = re.findall(r'<rect class="([^"]*)" ([^>]*)><title>([^<]*)', picture.svg)
    dots = [tip for _, _, tip in bars if tip.startswith("dot.")]
    assert len(dots) == 400
    assert all(int(tip[4:].split(",")[0]) >= 500 for tip in dots)
    assert 'Of "from the device" the 400 longest are drawn.' in picture.note
    ((kind, place, _),) = (bar for bar in bars if bar[2].startswith("DevicePut, 500 ms"))
    (step, *_) = (bar for bar in bars if bar[2].startswith("step, 1 s, dispatched"))
    assert kind == step[0]  # the colour of the line
    assert 'data-line="cell 3:4"' in place
    order = ["Python dispatches", "Python waits", "to the device", "CPU 0 executes"]
    assert [picture.svg.index(f">{lane}<") for lane in order] == sorted(
        picture.svg.index(f">{lane}<") for lane in order
    )


@pytest.mark.parametrize(
    ("device", "waits", "compiling", "found"),
    [
        (0.4, 0.0, 0.0, True),
        (0.4, 0.4, 0.0, True),  # a wait for what is done at once
        (7.0, 0.0, 0.0, False),  # the device has work
        (7.0, 8.0, 0.0, False),
        (0.4, 8.0, 0.0, False),  # Python waits for something else
        (0.4, 0.0, 9.0, False),  # XLA compiles
    ],
)
def test_python_that_takes_the_time_is_the_first_sentence(device, waits, compiling, found) -> None:
    starts = [10.0 * n for n in range(5)]
    run = RunTimeline(
        50.0,
        tuple(Dispatch("step", s, 1.0 + compiling, STEP, compiling) for s in starts),
        tuple(Wait(s + 1, waits, LOSS, "step") for s in starts if waits),
        tuple(Execution("CPU 0", "step", s + 1, device, STEP) for s in starts),
    )
    first = report(facts(run)).findings[0]
    words = "Python takes most of the time, 10 s" if not waits else "Python takes most of the time"
    assert first.measured.startswith(words) is found
    assert (f"dispatch at {STEP.place} to the next" in first.measured) is found
    assert ("idle 96% of it" in first.measured) is found
    assert "10 s" not in first.text


@pytest.mark.parametrize(
    ("seconds", "device", "compiling", "found"),
    [
        (0.04, 0.001, 0.0, True),  # a step of many small arrays
        (0.04, 0.06, 0.0, False),  # the device has work
        (0.04, 0.001, 0.03, False),  # XLA compiles
        (0.002, 0.0001, 0.0, False),  # nothing takes long
    ],
)
def test_python_takes_the_time_of_a_single_call(seconds, device, compiling, found) -> None:
    at = 0.9 * seconds
    dispatch = Dispatch("step", at, 0.1 * seconds + compiling, STEP, compiling)
    execution = Execution("CPU 0", "step", at, device)
    run = RunTimeline(seconds + compiling, (dispatch,), (), (execution,))
    first = report(facts(run)).findings[0].measured
    words = f"Python takes most of the time, 40 ms round the dispatch at {STEP.place}"
    assert first.startswith(words) is found
