"""What changed between the records of two runs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from jaxlens.ir.compile_log import CompileStep, KeyPart
from jaxlens.ir.record import RecordedConstant
from jaxlens.jobs.record.difference import difference, report
from jaxlens.jobs.record.facts import facts
from jaxlens.jobs.record.report import report as job_report
from tests.jobs.record.job_records import compiled, job, process


def none(*_):
    """No stage of any program."""


def of(name, *compiles):
    return facts(replace(job(process(0, *compiles, count=1)), name=name), none)


def run(name, *shapes):
    compiles = [compiled(i, x=f"f32[{n},4]", program=f"f{n}") for i, n in enumerate(shapes, 1)]
    return of(name, *compiles)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ((8, 16), (8, 32), "x is f32[16,4] in a, f32[32,4] in b"),
        ((8, 16), (8,), "only a has x f32[16,4]"),
        ((8,), (8, 16, 24), "only b has x f32[16,4] and x f32[24,4]"),
    ],
)
def test_the_shapes_of_one_run_are_named(before, after, what):
    both = run("a", *before), run("b", *after)
    texts = [f.text for f in report(difference(*both, none)).findings]
    assert f"its programs differ ({what})" in texts[1]


def wider(number, rows, width):
    """A compile for a batch of `rows`, of a model with ten weights."""
    made = compiled(number, x=f"f32[{rows},4]", program=f"f{rows}-{width}")
    weights = tuple(KeyPart(f"w[{n}]", "input", f"f32[{width}]") for n in range(10))
    return replace(made, call=replace(made.call, parts=(*weights, *made.call.parts)))


def changes(left, right, stage_of=none):
    (change,) = difference(of("a", *left), of("b", *right), stage_of).functions
    return change.differences


def with_part(compile, part):
    parts = (*compile.call.parts, part)
    return replace(compile, call=replace(compile.call, parts=parts, program=part.name))


def test_a_layer_more_is_named_once_and_sizes_of_both_runs_are_not():
    layer = KeyPart("layer[3]", "input", "f32[64]")
    before = [wider(1, 8, 64), wider(2, 5, 64)]
    assert changes(before, [with_part(c, layer) for c in before]) == ("only b has layer[3]",)


def test_what_one_run_compiled_alone_has_no_verdict_and_equal_amounts_are_no_change():
    a, b = of("a", compiled(1)), of("b", compiled(1), compiled(2, "other", program="f2"))
    answer = report(difference(sized(a, 1_000_000), sized(b, 1_000_001), none))
    assert [f.text for f in answer.findings[1:]] == ["Only b compiled other."]
    assert [row[-1].text for row in answer.tables[0].rows] == ["same", "-"]


def sized(job, bytes):
    """A job whose functions take some memory."""
    return replace(job, functions=tuple(replace(f, bytes=bytes) for f in job.functions))


def test_programs_of_one_key_are_compared_line_by_line():
    both = [[replace(compiled(1, program=p), program=p)] for p in ("0.1", "0.2")]

    def stage_of(program, name):
        nodes = SimpleNamespace(nodes=list)
        return SimpleNamespace(
            text=f"mul {program}", info=SimpleNamespace(title=name, name=""), module=nodes
        )

    line = ("line 1 of the jaxpr is `mul 0.1` in a, `mul 0.2` in b",)
    assert changes(*both, stage_of) == line
    found = report(difference(of("a", *both[0]), of("b", *both[1]), stage_of))
    assert f"step: its programs differ ({line[0]})." in [f.text for f in found.findings]
    assert "jaxlens.compare(" in found.tables[0].note
    values = [[compiled(1, constants=(RecordedConstant("f32[9]", d),))] for d in "ab"]
    assert "has other values" in changes(*values)[0]


DONATED = "%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32> {jax.buffer_donor"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("%a: tensor<2xf32>", f"{DONATED} = true}}"), "inputs donated: none in a, 2 in b"),
        ((f"{DONATED} = true}}", f"{DONATED} = false}}"), "line 1 of the stablehlo is `%a: "),
    ],
)
def test_a_library_s_donation_is_named(texts, said):
    both = [[replace(compiled(1, program=p), program=p)] for p in ("p", "q")]

    def stage_of(program, name):
        text = {"p": texts[0], "q": texts[1]}[program] if name == "stablehlo" else "the same"
        info, module = SimpleNamespace(title=name, name=""), SimpleNamespace(nodes=list)
        return SimpleNamespace(text=text, info=info, module=module)

    (found,) = changes(*both, stage_of)
    assert found.startswith(said)


def test_programs_of_the_persistent_cache_are_counted():
    steps = (CompileStep("trace", 0.1), CompileStep("compile", 0.1, served="disk"))
    served = compiled(1)
    served = replace(served, call=replace(served.call, steps=steps))
    a, b = of("a", compiled(1)), of("b", served)
    head, *_ = report(difference(a, b, none)).findings
    assert head.text == "1 compile in a, 1 compile in b (1 from the persistent cache)."
    (cached,) = [f.text for f in job_report(b).findings if "cache" in f.text]
    assert cached.startswith("1 of 1 program came from the persistent cache")


def of_two(name, left, right):
    known = job(*(process(i, *compiles) for i, compiles in enumerate((left, right))))
    return facts(replace(known, name=name), none)


def test_a_program_that_changed_in_one_process_is_that_process_s():
    def stage_of(name, stage):
        info = SimpleNamespace(title="jaxpr", name="jaxpr")
        module = SimpleNamespace(nodes=list)
        return SimpleNamespace(text=f"mul {name}", info=info, module=module)

    one, two = (replace(compiled(1, program=name), program=name) for name in ("f1", "f2"))
    both = of_two("a", [one], [one]), of_two("b", [one], [two])
    assert difference(*both, stage_of).functions[0].differences == (
        "line 1 of the jaxpr is `mul f1` in a, `mul f2` in b",
    )


def test_a_function_that_one_process_left_out_is_a_change():
    both = [compiled(1), compiled(2, "eval", program="e")]
    changed = difference(of_two("a", both, both), of_two("b", both, both[:1]), none)
    texts = [f.text for f in report(changed).findings]
    assert texts[1:] == ["eval: compiled once, before 2 times."]
