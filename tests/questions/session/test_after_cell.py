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
from jaxlens.questions.session.report import AfterCell, cell_html, cell_text, report, warnings
from tests.support.documents import approved

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


STATIC = KeyChange("static", "n", "4", "3")
FAILED = (CompileStep("compile", 1.0, failed="XlaError"),)
CELLS = {
    "the first time": after(call()),
    "transforms inside of jit": after(call(transforms=("vmap", "grad"))),
    "a transform of jit": after(call(under="vmap")),
    "the third time": after(call(size(16, 8)), earlier=2),
    "a later time": after(call(size(16, 8)), earlier=20),
    "several times": after(*(call(size(n + 1, n)) for n in range(2, 5)), earlier=2),
    "two causes": after(call(size(9, 8)), call(size(10, 9)), call(STATIC), earlier=1),
    "recompiles first, then what took longest": after(
        call(function="f"),
        call(function="slow", seconds=9),
        call(size(2, 1), function="g"),
        call(function="h"),
    ),
    "bytes": after(call(bytes=1_300_000_000), call(function="g", seconds=2.0)),
    "the persistent cache": after(call(served="disk")),
    "the persistent cache and a compile": after(call(served="disk"), call(function="g")),
    "a compile that failed": AfterCell(
        CompileLog((CallEvent(1, "step", "user", CALLED, STEP, FAILED, "trace"),)), {}, {}
    ),
}


def test_the_compiles_of_a_cell_are_counted_once():
    cell = after(call())
    assert cell.compiles is cell.compiles


def test_the_line_below_a_cell():
    """Without seconds and bytes, which the text that notebooks compare has not, and with them."""
    lines = []
    for name, cell in CELLS.items():
        texts = cell_text(cell, times=False), cell_text(cell, times=True)
        lines += [f"{name}:", *texts] if report(cell).findings else [f"{name}: nothing"]
    approved("below_a_cell", "\n".join(lines))


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
