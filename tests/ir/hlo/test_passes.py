"""Dump names, their order and titles, and the store that holds many nearly equal texts."""

import itertools
import random

import pytest

from jaxlens.errors import CaptureFileError
from jaxlens.ir.hlo.passes import DumpName, in_order, interval, parse_name, pass_stages
from jaxlens.ir.text_store import from_bytes, pack, to_bytes
from tests.ir.check import check

NAMES = {
    "module_0000.jit_f.0007.simplification.after_pipeline-start.before_algsimp.txt": DumpName(
        0, "jit_f", 7, "simplification", "pipeline-start", "algsimp"
    ),
    "module_0012.jit__lambda_.0123.copy-insertion.after_adding_special-case_copies.txt": DumpName(
        12, "jit__lambda_", 123, "copy-insertion", "adding_special-case_copies", ""
    ),
    "module_0000.jit_f.before_optimizations.txt": DumpName(
        0, "jit_f", -1, "", "before_optimizations", ""
    ),
    "module_0000.jit_f.cpu_after_optimizations.txt": None,
    "module_0000.jit_f.cpu_after_optimizations-buffer-assignment.txt": None,
    "module_0000.jit_f.debug_options": None,
}


@pytest.mark.parametrize("file", NAMES)
def test_names_of_dumps(file):
    assert parse_name(file) == NAMES[file]


def test_order_is_by_number_and_the_first_is_before_optimisation():
    files = [f"module_0000.f.{i:04d}.p.after_x.before_y.txt" for i in (10000, 2, 10, 0)]
    files += ["module_0000.f.before_optimizations.txt", "notes.txt"]
    assert [parse_name(file).index for file in in_order(files)] == [-1, 0, 2, 10, 10000]


def text(*lines: str) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"HloModule m\n\nENTRY e {{\n  a = f32[] parameter(0)\n{body}}}\n"


FILES = [
    "module_0000.m.before_optimizations.txt",
    "module_0000.m.0000.simplification.after_pipeline-start.before_algsimp.txt",
    "module_0000.m.0001.simplification.after_algsimp.before_cse.txt",
    "module_0000.m.0002.simplification.after_dce.before_pipeline-end.txt",
    "module_0000.m.0003.simplification.after_pipeline-start.before_algsimp.txt",
    "module_0000.m.0004.layout.after_assign.before_x.txt",
]
TEXTS = [
    text("b = f32[] copy(a)", "c = f32[] copy(b)"),
    text("b = f32[] copy(a)", "c = f32[] copy(b)"),
    text("b = f32[] copy(a)", "c = f32[] copy(a)"),
    text("c = f32[] copy(a)"),
    text("c = f32[] copy(a)"),
    text("d = f32[] copy(a)"),
]


def test_stages_have_unique_titles_and_share_equal_modules():
    stages = pass_stages(FILES, pack(TEXTS))
    assert [stage.stage.title for stage in stages] == [
        "HLO before optimisation",
        "simplification / pipeline-start",
        "simplification / algsimp",
        "simplification / dce",
        "simplification / pipeline-start (2)",
        "layout / assign",
    ]
    assert [stage.changed for stage in stages] == [False, False, True, True, False, True]
    assert [stage.stage.text for stage in stages] == TEXTS
    assert stages[1].stage.module is stages[0].stage.module
    assert stages[4].stage.module is stages[3].stage.module
    assert [len(stage.stage.module.body().nodes) for stage in stages] == [3, 3, 3, 2, 2, 2]
    assert all(check(stage.stage.module) == [] for stage in stages)
    assert {stage.stage.module.stage for stage in stages} == {"passes"}


def test_intervals_say_no_more_than_is_known():
    stages = pass_stages(FILES, pack(TEXTS))
    assert [interval(a, b) for a, b in itertools.pairwise(stages)] == [
        "after HLO before optimisation, before simplification / algsimp",
        "algsimp",
        "dce, or a pass between algsimp and it",
        "after dce, before simplification / algsimp",
        "assign, or a pass between simplification / pipeline-start (2) and it",
    ]


def test_packed_texts_come_back():
    dice = random.Random(1)
    lines = ["", " ", "a", "é\u2028", "\ud800", "b" * 99, "\r", "0"]
    texts = ["\n".join(dice.choices(lines, k=dice.randrange(9))) for _ in range(50)] + [""]
    packed = pack(texts)
    assert list(packed) == texts
    assert packed[-1] == ""
    assert packed[1:3] == tuple(texts[1:3])
    assert len(packed.lines) <= len(lines)
    again = from_bytes(to_bytes(packed))
    assert again == packed
    assert to_bytes(again) == to_bytes(packed)
    assert from_bytes(to_bytes(pack([]))) == pack([])


def test_bytes_of_another_kind_are_refused():
    good = to_bytes(pack(["a\nb", "a"]))
    for bad in (b"", b"nonsense", good[:-5], b"x" + good):
        with pytest.raises(CaptureFileError, match="expected packed texts"):
            from_bytes(bad)
