"""Which program was not the same in all processes of a job, and what differs in it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from jaxlens.ir.compile_log import KeyPart
from jaxlens.ir.graph import Node, Span
from jaxlens.ir.record import RecordedConstant
from jaxlens.jobs.record.facts import facts
from jaxlens.jobs.record.report import report
from tests.jobs.record.job_records import compiled, job, process
from tests.support.documents import approved


def texts(*processes):
    found = facts(job(*processes), lambda name, stage: None)
    return [finding.text + finding.tail for finding in report(found).findings]


def static(compile, value):
    part = KeyPart("rate", "static", value)
    return replace(compile, call=replace(compile.call, parts=(*compile.call.parts, part)))


def between(first, second):
    """Two processes whose second programs are these."""
    yield process(0, compiled(1, "init"), first, compiled(3, "later"))
    yield process(1, compiled(1, "init"), second, compiled(3, "later", program="f9"))


def several(*compiles, **changes):
    """As many processes, with a program each; or with these."""
    for number, each in enumerate(compiles):
        each = each if isinstance(each, tuple) else (each,)
        yield process(number, *each, **{"count": len(compiles), **changes})


def closing_over(shape, digest=""):
    return compiled(2, constants=(RecordedConstant(shape, digest),))


def with_settings():
    settings = {"jax": "0.10.2", "XLA_FLAGS": "--a=1 --b=2"}
    others = [{}, {"jax": "0.11.2", "XLA_FLAGS": "--b=2 --xla_dump_to=here --a=1"}]
    for number, other in enumerate(others):
        compile = replace(compiled(1), program=str(number))
        yield process(number, compile, settings={**settings, **other})


F2 = compiled(2, program="f2")
LOAD, SAVE = (compiled(1, name, program=name) for name in ("load", "save"))
EVAL, METRIC = compiled(3, "eval", program="e"), compiled(2, "metric", program="m")
BOTH = compiled(1, processes=(0, 1, 2, 3))
STAGES = [(BOTH, compiled(2, "stage", p, processes=(2, 3))) for p in ("a", "b")]
OWN = [compiled(1, program=name, processes=(0, 1, 2, 3)) for name in "abbb"]
ORDERS = [compiled(1, devices=ids) for ids in ((0, 1, 2, 3), (2, 3, 0, 1))]
JOBS = {
    "equal programs in one order": several(*[(compiled(1, "init"), compiled(2))] * 4),
    "a shape": between(compiled(2), compiled(2, x="f32[16,4]", program="f2")),
    "a static argument": between(static(compiled(2), "0.1"), static(F2, "0.2")),
    "an argument of one alone": between(static(compiled(2), "0.1"), F2),
    "a function": between(compiled(2), compiled(2, "other", program="f2")),
    "an array": between(closing_over("f32[30]", "aa"), closing_over("f32[30]", "bb")),
    "an array of another shape": between(closing_over("f32[0]", "0"), closing_over("f32[1]", "1")),
    "a program that was not written": between(compiled(2), F2),
    "one that did not get to a program": several((compiled(1), compiled(2, "eval")), compiled(1)),
    "a program of one process": several(
        (compiled(1, "log", processes=(0,)), compiled(2)), compiled(1)
    ),
    "those that the first takes no part in": several(BOTH, BOTH, *STAGES),
    "the same one of these": several(BOTH, BOTH, STAGES[0], STAGES[0]),
    "a program more": several((compiled(1), EVAL), (compiled(1), METRIC, EVAL)),
    "two programs in another order": several((compiled(1), LOAD, SAVE), (compiled(1), SAVE, LOAD)),
    "processes named by what they compiled": several(*OWN),
    "devices in another order": several(*ORDERS),
    "versions and flags": with_settings(),
    "a record without some processes": [process(0, compiled(1))],
}


def test_what_is_not_the_same_is_named():
    lines = []
    for name, processes in JOBS.items():
        said = [text for text in texts(*processes) if "took longest" not in text]
        lines += ["", f"{name}:", *said]
    approved("same_program", "\n".join(lines[1:]))


@pytest.mark.parametrize(
    "other",
    [
        {"constants": ()},  # too many programs waited to be written
        {"constants": (RecordedConstant("f32[30]"),)},  # its values were freed
    ],
)
def test_what_one_record_does_not_have_is_no_difference(other):
    whole = {"constants": (RecordedConstant("f32[30]", "aa"),)}
    for one, two in ((whole, other), (other, whole)):
        said, *_ = texts(process(0, compiled(1, **one)), process(1, compiled(1, **two)))
        assert said.startswith("It is the same program")


def test_programs_of_other_processes_are_not_compared():
    left = process(0, compiled(1), count=3)
    middle = process(1, compiled(1), compiled(2, "pair", processes=(1, 2)), count=3)
    right = process(2, compiled(1), compiled(2, "pair", processes=(1, 2)), count=3)
    pair = facts(job(left, middle, right), lambda *_: None)
    assert pair.mismatch is None


def test_the_starts_of_a_restarted_job_are_compared_one_by_one():
    first = [process(i, compiled(1), started=10.0) for i in range(2)]
    again = [process(i, compiled(1, program="new"), started=90.0) for i in range(2)]
    found = facts(job(first[0], again[0], first[1], again[1]), lambda *_: None)
    assert found.mismatch is None
    assert {row.label for row in found.rows} == {"0", "0 (2)", "1", "1 (2)"}


def test_the_earliest_difference_of_many_processes():
    same, other = ({"processes": (0, 1, 2, 3), "program": name} for name in ("f1", "x"))
    late = process(1, compiled(1, **same), compiled(2, **other))
    early = process(2, compiled(1, **other), compiled(2, **same))
    alike = process(3, compiled(1, **other), compiled(2, **same))
    first = process(0, compiled(1, **same), compiled(2, **same))
    found = facts(job(first, late, early, alike), lambda *_: None)
    assert found.mismatch.position == 1
    assert found.mismatch.groups == (("0", "1"), ("2", "3"))


def test_how_a_process_ended():
    def findings(*seconds, **changes):
        others = [process(i, compiled(1), seconds=s, ended=False) for i, s in enumerate(seconds)]
        right = process(len(others), compiled(1), count=2, **{"seconds": 12.2, **changes})
        return [
            f.text + f.tail for f in report(facts(job(*others, right), lambda *_: None)).findings
        ]

    waits = "after 12.2 s. The others may wait for it in a collective."
    assert f"Process 1 ended with RuntimeError, {waits}" in findings(20.0, error="RuntimeError")
    assert not any("Process 1" in text for text in findings(20.0, ended=False))


def jaxpr(line, *lines):
    """A stage with one equation a line, made at `line` of the user's file."""
    nodes = [Node(f"e{n}", "op", spans=(Span("red.py", line),)) for n in range(len(lines))]
    text = "\n".join(["b0()", *lines, "return v1"])
    info = SimpleNamespace(title="jaxpr", name="jaxpr")
    return SimpleNamespace(text=text, info=info, module=SimpleNamespace(nodes=lambda: nodes))


def test_each_side_has_its_own_line():
    stages = {"a": jaxpr(7, "v1 = sin"), "b": jaxpr(8, "v1 = sin", "v2 = cos")}
    pair = [replace(compiled(1, program=name), program=name) for name in "ab"]
    two = job(*(process(i, compile) for i, compile in enumerate(pair)))
    found = facts(two, lambda name, stage: stages[name] if stage == "jaxpr" else None)
    assert found.mismatch.differences == (
        "line 3 of the jaxpr is `return v1` in process 0, `v2 = cos` (red.py:8) in process 1",
    )


def test_a_clock_that_jumped_back_leaves_no_negative_time():
    early = process(1, compiled(1), started=-5.0)
    found = facts(job(process(0, compiled(1), started=1000.0), early), lambda *_: None)
    assert all(row.start >= 0 for row in found.rows)


def test_the_figures_of_a_function():
    found = facts(job(process(0, compiled(1), compiled(2, program="f2"), count=1)), lambda *_: None)
    (function,) = found.functions
    assert (function.name, function.counts, function.bytes) == ("step", "2", 123)
    assert function.seconds == pytest.approx(2.0)
    assert function.programs == {"f1", "f2"}


def test_starts_in_one_folder_are_told_apart_by_their_identity():
    died = process(0, compiled(1), started=10.0, start="a-1")  # process 1 left nothing
    again = [process(i, compiled(1, program="new"), started=90.0, start="b-1") for i in range(2)]
    more = [process(i, compiled(1), count=4, started=99.0) for i in range(4)]
    found = facts(job(died, again[0], more[0], again[1], *more[1:]), lambda *_: None)
    assert (found.mismatch, found.compared) == (None, 4)
    assert [(row.process.process.started, row.label) for row in found.rows if row.label > "1"] == [
        (90.0, "1 (2)"),
        (99.0, "1 (3)"),
        (99.0, "2 (3)"),
        (99.0, "3 (3)"),
    ]
