"""The memory peak by line, sizes, residuals and donation, on programs written by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import jaxlens
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.program.donated import option
from jaxlens.questions.memory import view as memory_view
from jaxlens.questions.memory.buffer_origins import Origins
from jaxlens.questions.memory.checkpoint import trials
from jaxlens.questions.memory.donation import donations
from jaxlens.questions.memory.facts import Tried, facts
from jaxlens.questions.memory.report import report as report_of
from jaxlens.questions.memory.report import types
from jaxlens.questions.memory.residuals import Residual, Residuals, residuals_in
from tests.support import fixed_captures as fixed
from tests.support.paths import CAPTURES, RECORDS, TEXTS


def test_the_peak_of_the_layer_is_that_by_hand():
    """What is said of it, and its tables, are `views/compile.memory.txt`."""
    use = facts(fixed.capture())
    # x 128; dot.1 lives until gt_fusion has run: 32 + 8; the result 32 is written before.
    assert (use.peak, use.reserved) == (128 + 32 + 8, 336)
    assert report_of(use).overlays[0].values["dot.1"] == 32.0


def test_without_live_ranges_the_sizes_stay():
    report = report_of(facts(fixed.capture("buffers")))
    assert "which line owns that, is not known" in report.findings[0].text
    assert report.findings[0].trust == "unknown"
    assert report.tables[0].title == "Memory"
    assert facts(fixed.capture("buffers")).peak is None
    assert facts(fixed.capture("buffers")).timeline() is None


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.stem)
def test_records_of_all_devices_have_a_peak_with_owners(path):
    cap = jaxlens.load(path)
    use = facts(cap)
    assert max(use.arguments, 1) < use.peak <= use.reserved
    assert sum(one.bytes for one in use.at_peak) == use.peak
    assert sum(use.by_line.values()) + use.kind("argument") == use.peak
    owned = sum(size for line, size in use.by_line.items() if line)
    assert owned >= 0.9 * (sum(use.by_line.values()) - use.kind("constant"))
    drawn = memory_view.picture(facts(cap).timeline())
    assert "peak" in drawn.svg
    assert drawn.text == memory_view.picture(facts(cap).timeline()).text


def test_many_arguments_are_drawn_as_one_block(monkeypatch):
    cap = jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens")
    each = memory_view.picture(facts(cap).timeline()).svg
    assert "params[&#x27;w1&#x27;]" in each or "params['w1']" in each
    monkeypatch.setattr(memory_view, "_ARGUMENTS", 2)
    together = memory_view.picture(facts(cap).timeline()).svg
    assert "arguments 47.9 kB" in together
    assert together.count("<rect") < each.count("<rect")


def test_what_a_saved_capture_cannot_try_it_says():
    with pytest.raises(UnavailableError, match="holds no Python function that could be traced"):
        trials(jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens"))


LOOP = (TEXTS / "carried_state.hlo.txt").read_text()


def test_a_loops_state_belongs_to_who_made_it_inside_or_outside():
    origins = Origins(fixed.module(LOOP))
    assert origins.origin("loop", "1").node.id == "sum"  # made in the body
    assert origins.origin("loop", "2").node.id == "double"  # handed on unchanged, through a copy
    assert origins.origin("s", "2").node.id == "double"
    assert origins.origin("s", "1").node.id == "sum"
    assert origins.origin("nobody") is None


UPDATE = (TEXTS / "stacked_rows.hlo.txt").read_text()


def test_only_an_update_in_a_loop_stacks_a_row():
    origins = Origins(fixed.module(UPDATE))
    row, written = origins.origin("loop", "1"), origins.origin("written")
    assert (row.node.id, row.stacked) == ("row", True)
    assert (written.node.id, written.stacked) == ("written", False)


def test_trials_without_live_ranges_are_compared_by_what_they_reserve():
    whole = facts(fixed.capture())
    now = replace(whole, peak=None, tried=(Tried("the whole function", "code", takes=100),))
    texts = [finding.text for finding in report_of(now).findings]
    assert texts[0].startswith(
        "With jax.checkpoint round the whole function what is reserved is 100 B, 70% less"
    )
    higher = replace(now, tried=(replace(now.tried[0], takes=336),))
    assert report_of(higher).findings[0].text == (
        "No way of jax.checkpoint that was tried lowers what is reserved by more than 2%."
    )


def _node(id, opcode, reads, name, type_, scope, regions=(), attrs=None, line=2):
    made = (Value(name, type_),)
    return Node(id, opcode, reads, made, attrs or {}, regions, scope, fixed.at(line))


def test_residuals_are_what_backward_equations_read_of_others():
    one, stack = Type("f32", (4,)), Type("f32", (10, 4))
    inner = _node("e1", "sin", ("x",), "y", one, "", line=3)
    body = Region("scan body", (Value("x", one),), (inner,), ("x", "y"), "jaxpr")
    nodes = (
        Node(
            "e0",
            "scan",
            ("a",),
            (Value("c", one), Value("ys", stack)),
            {"length": "10", "num_carry": "1"},
            ("scan body",),
            "jvp()",
            fixed.at(2),
        ),
        _node("e2", "mul", ("c", "c"), "d", one, "jvp()"),
        _node("e3", "neg", ("d",), "e", one, "transpose(jvp())"),
        _node("e4", "mul", ("ys", "a"), "f", stack, "transpose(jvp())"),
        _node("e5", "mul", ("e", "f"), "g", stack, "transpose(jvp())"),
    )
    main = Region("main", (Value("a", one),), nodes, ("g",), "jaxpr")
    saved = residuals_in(Module("f", "jaxpr", "main", {"main": main, "scan body": body}))
    assert [(r.name, r.bytes, r.maker, r.opcode) for r in saved.values] == [
        ("ys", 160, "e1", "sin"),
        ("d", 16, "e2", "mul"),
    ]
    assert saved.values[0].line == "cell 3:3"
    assert (saved.bytes, saved.is_differentiated) == (176, True)


@pytest.mark.parametrize(("scale", "is_said"), [(1, False), (2, True)])
def test_residuals_of_more_than_the_peak_say_why(scale, is_said):
    found = facts(fixed.capture())
    kept = Residual("a", Type("f32", (1,)), found.peak * scale, "e1", "e1", "sin", None)
    of_autodiff = report_of(replace(found, saved=Residuals((kept,), True))).findings
    (told,) = [f.text for f in of_autodiff if f.text.startswith("Autodiff saves")]
    assert ("more than the peak: XLA never holds them all at once" in told) is is_said


def _donating(aliases: str, inputs: tuple[Input, ...], outputs: tuple[Input, ...]) -> Capture:
    text = fixed.AFTER.replace("HloModule ", f"HloModule  x, {aliases}", 1) if aliases else ""

    class Driver(fixed.FixedDriver):
        def outputs(self):
            return outputs

    driver = Driver()
    if aliases:
        head, _, rest = fixed.AFTER.partition("\n")
        text = f"{head}, {aliases}\n{rest}"
        driver._stages["optimized"] = fixed.stage("optimized", text)
    whole = fixed.capture()
    return Capture(replace(whole.program, inputs=inputs), driver)


def test_donation_says_who_found_a_result_and_why_others_did_not():
    f32, bf16 = Type("f32", (4, 8)), Type("bf16", (4, 8))
    given = (Input("x", f32, donated=True), Input("w", f32, donated=True), Input("b", bf16, True))
    answer = donations(
        _donating("input_output_alias={ {0}: (0, {}, may-alias) }", given, (Input("result", f32),))
    )
    assert [(d.name, d.result, d.why) for d in answer] == [
        ("x", "result", ""),
        ("w", "", "1 result of the size of f32[4,8] for 2 donated inputs of it"),
        ("b", "", "no result has the size of bf16[4,8]; result has its shape, but is f32"),
    ]


def test_what_could_be_donated_is_found_by_type():
    f32 = Type("f32", (4, 8))
    given = (Input("x", f32), Input("w", Type("f32", (8, 2))), Input("b", f32))
    answer = donations(_donating("", given, (Input("result", f32),)))
    assert [(d.name, d.donated, d.result, d.bytes) for d in answer] == [("x", False, "result", 128)]


PAIR, MANY, SQUARE = "(f32[8], s32[])", f"({', '.join(['f32[8]'] * 40)})", "f32[256,256]"


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([MANY, "s32[]"], "1 tuple of 40 arrays and s32[]"),
        ([SQUARE, PAIR, SQUARE, SQUARE], "f32[256,256] x 3 and 1 tuple of 2 arrays"),
        ([PAIR, SQUARE, "(f32[4], f32[4])"], "2 tuples of 2 arrays and f32[256,256]"),
        (["(f32[8])"], "1 tuple of 1 array"),
        ([SQUARE], "f32[256,256]"),
    ],
)
def test_tuples_among_types_are_counted(held, said):
    assert types([SimpleNamespace(type=kind) for kind in held]) == said


def test_the_table_of_buffers_has_the_number_of_parts_of_a_long_tuple():
    capture = jaxlens.load(RECORDS / "fsdp_step.tpu-v5e-2x2.jaxlens")
    tables = report_of(facts(capture)).tables
    (buffers,) = (table for table in tables if table.title == "Buffers at the peak")
    types_of = {name.text: type_.text for name, type_, *_ in buffers.rows}
    assert types_of["fusion.55"] == "1 tuple of 18 arrays"
    assert types_of["x"] == "bf16[256,2048]"


def test_arguments_that_jax_refuses_by_name_are_not_donated_by_name():
    assert option(["state"], "jax.jit") == "donate_argnames=('state',)"
    assert option(["args"], "jax.jit") == "donate_argnums=..."
