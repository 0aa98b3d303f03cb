"""Which program was not the same in all processes of a job, and what differs in it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from jaxlens.ir.compile_log import KeyPart
from jaxlens.ir.graph import Node, Type, Value
from jaxlens.ir.record import RecordedConstant
from jaxlens.lenses.record.facts import facts
from jaxlens.lenses.record.report import report
from tests.lenses.record.job_records import compiled, job, process


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
            "the record does not have both programs, whose lines could be compared",
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
        {"state": "compiling"},
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
    assert found.mismatch.right is early
    assert found.mismatch.others == 1


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


def test_a_collective_of_many_arrays_is_cut():
    def stage_of(program, name):
        sizes = [9 if program == "f1" else 1, *range(2, 41)]
        whole = Type("", parts=tuple(Type("f32", (n,)) for n in sizes))
        reduced = Node("all-reduce.1", "all-reduce", results=(Value("all-reduce.1", whole),))
        return SimpleNamespace(module=SimpleNamespace(nodes=lambda: [reduced]))

    left = process(0, replace(compiled(2), program="f1"))
    other = compiled(2, x="f32[16,4]", program="f2")
    right = process(1, replace(other, program="f2"))
    assert facts(job(left, right), stage_of).mismatch.waits == (
        "all-reduce.1 (f32[9], f32[2], f32[3] and 37 more) in process 0 and "
        "all-reduce.1 (f32[1], f32[2], f32[3] and 37 more) in process 1"
    )


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
