"""The line below a cell, of hand-written compile logs; JAX is not needed."""

from collections import Counter

from jaxlens.ir.compile_log import (
    CallEvent,
    CompileLog,
    CompileStep,
    Cure,
    KeyChange,
    Replication,
)
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span, Type
from jaxlens.questions.session.report import AfterCell, report, warnings
from jaxlens.questions.session.view import cell_html, cell_text

STEP = Span("cell 1", 3, 3, function="step")
CALLED = Span("cell 2", 5, 5)


def call(*changes, function="step", seconds=0.5, served="", **more):
    steps = (CompileStep("trace", seconds / 2), CompileStep("compile", seconds / 2, served))
    return CallEvent(1, function, "user", CALLED, STEP, steps, "trace", changes, **more)


def size(new, old):
    return KeyChange("type", "x", f"f32[{new},4]", f"f32[{old},4]")


def after(*calls, earlier=0):
    """A cell with these calls, after `earlier` programs of each function for the same cause."""
    programs = Counter(one.identity for one in calls)
    causes = Counter((one.identity, one.cause) for one in calls if one.changes)
    return AfterCell(
        CompileLog(calls),
        {one: n + earlier for one, n in programs.items()},
        {one: n + max(earlier - 1, 0) for one, n in causes.items()},
    )


def line(*calls, **more):
    return report(after(*calls, **more)).findings[0].text


def test_the_compiles_of_a_cell_are_counted_once():
    cell = after(call())
    assert cell.compiles is cell.compiles


def test_the_first_time():
    assert line(call()) == "Compiled `step`."


def test_the_transforms_inside_of_jit():
    assert line(call(transforms=("vmap", "grad"))) == "Compiled `vmap(grad(step))`."
    assert line(call(under="vmap")) == "Compiled `step` under vmap."


def test_the_third_time():
    assert line(call(size(16, 8)), earlier=2) == (
        "Compiled `step` for the third time, because x's first axis changed: 8, 16."
    )


def test_a_later_time_is_a_number():
    assert line(call(size(16, 8)), earlier=20) == (
        "Compiled `step` for the 21st time, because x's first axis changed: 8, 16."
    )


def test_several_in_one_cell():
    calls = [call(size(n + 1, n)) for n in range(2, 5)]
    assert line(*calls, earlier=2) == (
        "Compiled `step` 3 times (5 in all), because x's first axis changed: 2, 3, 4, 5."
    )


def test_two_causes():
    other = KeyChange("static", "n", "4", "3")
    said = line(call(size(9, 8)), call(size(10, 9)), call(other), earlier=1)
    assert said.endswith("because x's first axis changed: 8, 9, 10, and more.")


def test_recompiles_first_then_what_took_longest():
    calls = [call(function="f"), call(function="slow", seconds=9), call(size(2, 1), function="g")]
    said = line(*calls, call(function="h"), earlier=0)
    assert said.startswith("Compiled `g`, because x's first axis changed: 1, 2; `slow`;")
    assert said.endswith("; 2 more functions.")


def test_seconds_and_bytes_are_not_in_the_stable_text():
    cell = after(call(bytes=1_300_000_000), call(function="g", seconds=2.0))
    assert cell_text(cell, times=False) == "Compiled `g`; `step`."
    assert cell_text(cell, times=True) == "Compiled `g`; `step` (2.5 s, peak 1.3 GB)."


def test_a_program_from_the_persistent_cache():
    assert line(call(served="disk")) == "Loaded from the persistent cache: `step`."
    assert line(call(served="disk"), call(function="g")).startswith("Compiled")


def test_nothing_of_a_compile_that_failed():
    failed = call()
    failed = CallEvent(
        1, "step", "user", CALLED, STEP, (CompileStep("compile", 1.0, failed="XlaError"),), "trace"
    )
    assert report(AfterCell(CompileLog((failed,)), {}, {})).findings == ()


def often(earlier, now):
    calls = [call(size(n + 1, n)) for n in range(2, 2 + now)]
    return [w.text for w in warnings(after(*calls, earlier=earlier))]


def test_too_often_at_the_third_the_sixth_and_the_twelfth_recompile():
    expected = (
        "`step` was recompiled 3 times because x's first axis changed; "
        "`%explain` tries what would avoid it."
    )
    assert often(3, 1) == [expected]  # a first compile and two recompiles came before
    said = {n: bool(often(n, 1)) for n in range(1, 26)}
    assert [n for n, warned in said.items() if warned] == [3, 6, 12, 24]
    assert often(0, 40)[0].startswith("`step` was recompiled 40 times")


def test_an_array_in_a_program_once():
    array = Constant("W", Type("f32", (2000, 2000)), 16_000_000, Span("cell 1", 4, 4))
    found = warnings(after(call(captured=(array,)), call(captured=(array,))))
    assert [one.text for one in found] == [
        "In the program of `step`, one array is closed over, `W` (f32[2000,2000], 16 MB), first "
        "read at cell 1:4: pass it as an argument, and its values are no part of the program."
    ]


def test_a_reshard_is_put_on_the_users_lines():
    lines = (Span("nn.py", 9, 9, library=True), Span("cell 1", 4, 4), Span("cell 1", 7, 7), CALLED)
    tiles = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"
    one = Replication("copy.1", "f32[64,32]", tiles, "{maximal device=0}", lines)
    (found,) = warnings(after(call(replicated=(one, one))))
    assert found.text == (
        "XLA replicates a value, made at cell 1:4 (called at cell 1:7), on every device, to "
        f"reshard it from {tiles} to {{maximal device=0}} (involuntary full rematerialization)."
    )


def test_a_warning_stands_above_the_tables_that_the_line_opens():
    page = cell_html(after(call(size(2, 3)), earlier=3))
    summary, tables = page.split("</summary>")
    assert "<b>Warning:</b>" in summary
    assert "<b>Warning:</b>" not in tables
    assert '<caption style="font-weight:600;text-align:left">Calls that' in tables


def test_cures_stand_above_those_tables():
    cure = Cure("pad x along axis 0 to 8, and mask what was padded", "calls of that shape hit it")
    page = cell_html(after(call(size(2, 3), cure=cure), earlier=3))
    cures = page.split("</summary>")[1].partition("<table")[0]
    assert "Cure: pad x along axis 0 to 8, and mask what was padded (calls of that" in cures


def test_a_leaf_without_a_name_has_a_number():
    change = KeyChange("type", "p['k'][<flat index 1>]", "f32[5]", "f32[3]")
    text = "because p['k'] leaf 1's length changed: 3, 5."
    assert cell_text(after(call(change)), times=False).endswith(text)
    assert "leaf 1: f32[5], was f32[3]" in cell_html(after(call(change)))


def test_names_are_data_in_html():
    page = cell_html(after(call(function="<script>alert(1)</script>")))
    assert "<script>" not in page
    assert "<details><summary>Compiled <code>&lt;script&gt;" in page
