"""What changed between the records of two runs."""

from dataclasses import replace

import pytest

from jaxlens.ir.compile_log import KeyPart
from jaxlens.lenses.record.difference import difference, report
from jaxlens.lenses.record.facts import facts
from tests.lenses.record.job_records import compiled, job, process


def run(name, *shapes):
    compiles = [compiled(i, x=f"f32[{n},4]", program=f"f{n}") for i, n in enumerate(shapes, 1)]
    return facts(replace(job(process(0, *compiles, count=1)), name=name), lambda *_: None)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ((8, 16), (8, 32), "x is f32[16,4] in a, f32[32,4] in b"),
        ((8, 16), (8,), "only a has x f32[16,4]"),
        ((8,), (8, 16, 24), "only b has x f32[16,4] and x f32[24,4]"),
    ],
)
def test_the_shapes_of_one_run_are_named(before, after, what):
    texts = [f.text for f in report(difference(run("a", *before), run("b", *after))).findings]
    assert f"its programs are others ({what})" in texts[1]


def wider(number, rows, width):
    """A compile for a batch of `rows`, of a model with ten weights."""
    made = compiled(number, x=f"f32[{rows},4]", program=f"f{rows}-{width}")
    weights = tuple(KeyPart(f"w[{n}]", "input", f"f32[{width}]") for n in range(10))
    return replace(made, call=replace(made.call, parts=(*weights, *made.call.parts)))


def test_weights_that_changed_in_all_programs_are_named_once():
    before = process(0, wider(1, 8, 64), wider(2, 5, 64), count=1)
    after = process(0, wider(1, 8, 96), count=1)
    left, right = (
        facts(replace(job(one), name=name), lambda *_: None)
        for name, one in (("a", before), ("b", after))
    )
    (keys,) = [change.keys for change in difference(left, right).functions]
    assert keys == (
        "w[0] is f32[64] in a, f32[96] in b, w[1] is f32[64] in a, f32[96] in b, "
        "w[2] is f32[64] in a, f32[96] in b and 7 more",
        "only a has x f32[5,4]",
    )
