"""What changed between the records of two runs."""

from dataclasses import replace

import pytest

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
