"""A printed line of MLIR as pieces: kinds, and what is folded."""

import pytest

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line
from jaxlens.render.text.lines import line_text
from jaxlens.views.listings.stablehlo_words import FORM
from tests.support.documents import approved

LONG = ", ".join(f"%iterArg_{i} = %{i}" for i in range(9))
TYPES = ", ".join(["tensor<128x256xf32>"] * 9)


LINES = [
    "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {",
    'func.func public @main(%arg0: tensor<8xf32>) -> (i1 {jax.result_info = "a"}) {',
    f"%0:9 = stablehlo.while({LONG}) : {TYPES}",
    f"return %0#0, %0#1 : {TYPES}",
    "}) : (tensor<8xf32>) -> tensor<8xf32>",
    f'%1 = "stablehlo.gather"(%0) <{{numbers = #stablehlo.gather<[{"0, " * 30}]>}}> ({{',
    f'%1 = stablehlo.custom_call @f(%0) {{config = "}} : {"x" * 80}"}} : (i1) -> i1',
    "%0 = stablehlo.constant dense<1.0> : tensor<2xcomplex<f32>>",
    "return %0 : tensor<f32>",
    "%0 = call @relu(%arg0)",
]


def test_words_have_their_kinds_and_what_is_folded_is_left_out():
    lines = []
    for line in LINES:
        assert "".join(p.text for p in FORM.pieces(line)) == line
        words = (p for p in FORM.pieces(line) if p.kind != "fold")
        lines.append("".join(f"<{p.kind} {p.text}>" if p.kind else p.text for p in words))
    approved("views/stablehlo_words", "\n".join(lines))


@pytest.mark.parametrize("text", ["", "}", "%", '"unfinished', "dense<1", "tensor<<<>", "a\x00b"])
def test_every_character_is_kept(text):
    assert "".join(p.text for p in FORM.pieces(text)) == visible(text)


def test_long_lists_of_arguments_and_results_show_their_first_items():
    names = [f"%arg{n}" for n in range(14)]
    kinds = ["tensor<4xf32>"] * 14
    line = (
        "func.func public @main("
        + ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
        + f") -> ({', '.join(kinds)}) {{"
    )
    assert "".join(piece.text for piece in FORM.pieces(line)) == line
    assert line_text(Line(FORM.pieces(line)), full=False) == (
        "func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>"
        ", ...) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, ...) {"
    )
    results = f"return {', '.join(names)} : {', '.join(kinds)}"
    assert line_text(Line(FORM.pieces(results)), full=False) == "return %arg0, %arg1, %arg2, ..."
    few = f"return {', '.join(names[:4])} : {', '.join(kinds[:4])}"
    assert line_text(Line(FORM.pieces(few)), full=False) == few
