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


def sentence(*processes):
    found = facts(job(*processes), lambda name, stage: None)
    return report(found).findings[0].text


def test_equal_programs_in_one_order():
    same = [process(index, compiled(1, "init"), compiled(2)) for index in range(4)]
    assert sentence(*same) == (
        "It is the same program on every host: 4 processes compiled 2 programs together, "
        "in one order."
    )


def static(compile, value):
    part = KeyPart("rate", "static", value)
    return replace(compile, call=replace(compile.call, parts=(*compile.call.parts, part)))


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (
            compiled(2),
            compiled(2, x="f32[16,4]", program="f2"),
            "x is f32[8,4] in process 0, f32[16,4] in process 1",
        ),
        (
            static(compiled(2), "0.1"),
            static(compiled(2, program="f2"), "0.2"),
            "rate is 0.1 in process 0, 0.2 in process 1",
        ),
        (
            static(compiled(2), "0.1"),
            compiled(2, program="f2"),
            "only process 0 has rate",
        ),
        (
            compiled(2),
            compiled(2, "other", program="f2"),
            "process 0 compiled step, process 1 other",
        ),
        (
            compiled(2, constants=(RecordedConstant("f32[30]", "aa"),)),
            compiled(2, constants=(RecordedConstant("f32[30]", "bb"),)),
            "an array that it closes over, constant 0 (f32[30]), has other values",
        ),
        (
            compiled(2),
            compiled(2, program="f2"),
            "their lines cannot be compared: one of the programs was not written",
        ),
    ],
    ids=["shape", "static", "alone", "function", "constant", "unknown"],
)
def test_the_first_difference_is_named(first, second, what):
    left = process(0, compiled(1, "init"), first, compiled(3, "later"))
    right = process(1, compiled(1, "init"), second, compiled(3, "later", program="f9"))
    assert sentence(left, right) == (
        "It is not the same program on every host: the second program that they compile together, "
        f"step, differs between process 0 and process 1: {what}."
    )


@pytest.mark.parametrize(
    "other",
    [
        {"constants": ()},  # too many programs waited to be written
        {"constants": (RecordedConstant("f32[30]"),)},  # its values were freed
    ],
)
def test_what_one_record_does_not_have_is_no_difference(other):
    whole = {"constants": (RecordedConstant("f32[30]", "aa"),)}
    left, right = process(0, compiled(1, **whole)), process(1, compiled(1, **other))
    assert sentence(left, right).startswith("It is the same program")
    assert sentence(process(0, compiled(1, **other)), process(1, compiled(1, **whole))).startswith(
        "It is the same program"
    )


def test_a_process_that_did_not_get_to_a_program():
    left, right = process(0, compiled(1), compiled(2, "eval")), process(1, compiled(1))
    assert sentence(left, right) == (
        "It is not the same program on every host: process 1 did not get to the second program "
        "that they compile together, eval, as process 0 did."
    )


def test_programs_of_one_process_are_its_own():
    alone = {"processes": (0,)}
    left = process(0, compiled(1, "log", **alone), compiled(2))
    assert sentence(left, process(1, compiled(1))).startswith("It is the same program")


def test_programs_of_other_processes_are_not_compared():
    left = process(0, compiled(1), count=3)
    middle = process(1, compiled(1), compiled(2, "pair", processes=(1, 2)), count=3)
    right = process(2, compiled(1), compiled(2, "pair", processes=(1, 2)), count=3)
    pair = facts(job(left, middle, right), lambda *_: None)
    assert pair.mismatch is None


def test_programs_that_the_first_process_takes_no_part_in_are_compared_too():
    both = compiled(1, processes=(0, 1, 2, 3))
    stages = [compiled(2, "stage", p, processes=(2, 3)) for p in ("a", "a", "a", "b")]
    four = [process(i, both, *([stage] * (i > 1)), count=4) for i, stage in enumerate(stages)]
    assert (
        "the second program that they compile together, stage, differs between process 2 and "
        in (sentence(*four))
    )
    four[3] = process(3, both, stages[2], count=4)
    assert facts(job(*four), lambda *_: None).mismatch is None


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


def test_a_program_more_is_named_with_what_the_other_compiled_there():
    both = [compiled(3, "eval", program="e")]
    more = compiled(2, "metric", program="m")
    assert sentence(process(0, compiled(1), *both), process(1, compiled(1), more, *both)).endswith(
        ": process 0 compiled eval, process 1 metric."
    )


def test_two_programs_in_another_order():
    a, b = (compiled(1, name, program=name) for name in ("load", "save"))
    assert sentence(process(0, compiled(1), a, b), process(1, compiled(1), b, a)).endswith(
        ": process 0 compiled load, process 1 save."
    )


def test_processes_are_named_by_what_they_compiled():
    own = [compiled(1, program=name, processes=(0, 1, 2, 3)) for name in "abbb"]
    four = [process(i, compile, count=4) for i, compile in enumerate(own)]
    assert "differs between process 0 and processes 1, 2 and 3: " in sentence(*four)


def test_devices_in_another_order_are_another_program():
    left, right = (
        process(i, compiled(1, devices=ids)) for i, ids in enumerate([(0, 1, 2, 3), (2, 3, 0, 1)])
    )
    assert sentence(left, right).endswith(
        ": its devices are in another order: number 0 is 0 in process 0, 2 in process 1."
    )


def test_versions_and_flags_that_differ_come_first():
    settings = {"jax": "0.10.2", "XLA_FLAGS": "--a=1 --b=2"}
    others = [{}, {"jax": "0.11.2", "XLA_FLAGS": "--b=2 --xla_dump_to=here --a=1"}]
    two = [
        process(i, replace(compiled(1), program=str(i)), settings={**settings, **other})
        for i, other in enumerate(others)
    ]
    found = report(facts(job(*two), lambda *_: None)).findings
    assert found[0].text == (
        "The processes differ in what should be equal on all hosts: jax is 0.10.2 in process 0, "
        "0.11.2 in process 1."
    )
    assert found[1].text.startswith("The StableHLO is the same on every host: 2 processes")


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


def test_a_record_without_some_processes():
    texts = [f.text for f in report(facts(job(process(0, compiled(1))), lambda *_: None)).findings]
    assert texts[0] == (
        "The record has only process 0 of 2: the others wrote nothing here; copy their process-* "
        "and programs into it to compare them."
    )


def test_constants_of_other_shapes():
    left, right = (
        process(i, compiled(1, program=str(i), constants=(RecordedConstant(f"f32[{i}]", str(i)),)))
        for i in range(2)
    )
    assert sentence(left, right).endswith(
        "that it closes over, constant 0 is f32[0] in process 0, f32[1] in process 1."
    )


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
