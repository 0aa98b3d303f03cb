"""Compile times from a hand-written profile whose seconds are known."""

from dataclasses import replace
from pathlib import Path

import pytest

from jaxlens.captures import load
from jaxlens.ir.facts import Part, Profile, Source
from jaxlens.ir.graph import Span
from jaxlens.ir.saved.facts import from_json, to_json
from jaxlens.program.compile_parts import CODE, LLVM, PASSES, REST, compile_parts
from jaxlens.program.python_loops import looped
from jaxlens.questions.times.facts import facts as facts_of
from jaxlens.questions.times.report import report as report_of
from jaxlens.questions.times.unrolled import Unrolled
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support import fixed_captures as fixed
from tests.support.documents import compile as document
from tests.support.paths import CAPTURES


def test_groups_add_up_to_the_compile() -> None:
    parts = compile_parts(fixed.PROFILE)
    assert parts.groups == pytest.approx({PASSES: 0.5, CODE: 0.1, LLVM: 1.0, REST: 0.4})
    assert sum(parts.groups.values()) == pytest.approx(parts.seconds) == 2.0


def test_a_pass_does_not_count_the_pipelines_that_it_runs() -> None:
    passes = {p.name: p for p in compile_parts(fixed.PROFILE).passes}
    assert list(passes) == ["algsimp", "dce", "fixpoint"]
    assert passes["dce"].seconds == pytest.approx(0.2)
    assert passes["dce"].times == 3
    assert passes["dce"].pipelines == ("simplify", "inner")
    assert passes["fixpoint"].seconds == pytest.approx(0.15 - 0.12)
    # What the pipelines do between passes is theirs: 0.05 and 0.02.
    assert sum(p.seconds for p in passes.values()) == pytest.approx(0.5 - 0.05 - 0.02)


def test_kernels_and_threads_are_counted_beside_the_compile() -> None:
    parts = compile_parts(fixed.PROFILE)
    assert parts.kernels == {"max_fusion": 0.3, "gt_fusion": 0.1}
    assert parts.llvm == 1.6


def test_a_cause_made_a_fifth_of_the_equations() -> None:
    facts = facts_of(fixed.capture())
    loop = Unrolled("main", 0, 5, 10, 5, "cell 3:2", "e0", 1)
    for own, repeated, words in (
        (300, 200, "a loop of 10 steps was unrolled (10 repetitions of 20)"),
        (300, 190, "cell 3:2 made 300 of 1,000 equations."),
        (300, 50, "cell 3:2 made 300 of 1,000 equations."),
        (190, 50, "No line made a fifth of 1,000 equations; the most, 190, are those of cell 3:2"),
        (50, 50, "No line made a fifth of 1,000 equations; the most, 50, are those of cell 3:2"),
    ):
        counted = replace(facts.equations, total=1_000, shown=1_000, own={"cell 3:2": own})
        found = replace(loop, block=repeated // 10)
        findings = report_of(replace(facts, equations=counted, loops=(found,))).findings
        assert words in findings[0].text
        assert any("steps was unrolled (" in f.text for f in findings) == (repeated >= 200)


def test_nothing_is_less_than_no_time() -> None:
    odd = Profile(0.5, (Part("a", "step", 0.6), Part("Codegen", "step", 0.7, 1, 0)))
    assert compile_parts(odd).groups == {PASSES: 0.0, CODE: 0.0, LLVM: 0.7, REST: 0.0}


def test_the_first_sentence_names_what_took_most() -> None:
    first = report_of(facts_of(fixed.capture())).findings[0]
    assert first.lead == "LLVM took 50% of 2 s. "
    assert first.text == (
        "No loop of four or more like steps was unrolled; cell 3:2 made 3 of 5 equations."
    )
    slow = replace(fixed.PROFILE.parts[1], seconds=1.5)
    facts = facts_of(fixed.capture())
    worse = compile_parts(Profile(2.0, (*fixed.PROFILE.parts[:1], slow, *fixed.PROFILE.parts[2:5])))
    lead = report_of(replace(facts, compile=worse)).findings[0].lead
    assert "HLO passes took" in lead
    assert "most of it" not in lead  # its longest pass took 0.2 s of 1.5 s
    algsimp = replace(fixed.PROFILE.parts[2], seconds=1.2)
    worse = compile_parts(Profile(2.0, (*fixed.PROFILE.parts[:1], slow, algsimp)))
    lead = report_of(replace(facts, compile=worse)).findings[0].lead
    assert lead.endswith("most of it in `algsimp`. ")
    folds = replace(algsimp, name="constant_folding")
    long = compile_parts(Profile(2.0, (*fixed.PROFILE.parts[:1], slow, folds)))
    lead = report_of(replace(facts, compile=long)).findings[0].lead
    assert lead.endswith("most of it in `constant_folding` (--captured says of what). ")


def test_llvm_s_seconds_of_a_kernel_stand_beside_those_of_its_lowering() -> None:
    llvm = (
        Part("max_fusion", "llvm", 0.2, aside=True),
        Part("max_fusion", "code", 0.1, aside=True),
        Part("gt_fusion", "llvm", 0.6, aside=True),
        Part("gt_fusion", "code", 0.3, aside=True),
    )
    parts = compile_parts(Profile(2.0, (*fixed.PROFILE.parts, *llvm)))
    assert parts.groups == compile_parts(fixed.PROFILE).groups  # other threads' seconds
    assert parts.compiled["gt_fusion"] == pytest.approx(0.9)
    report = report_of(replace(facts_of(fixed.capture()), compile=parts))
    assert report.findings[0].lead == "LLVM took 50% of 2 s, longest over `gt_fusion`. "
    many = (Part(f"fusion.{n}", "llvm", 0.9, aside=True) for n in range(9))
    spread = compile_parts(Profile(2.0, (*fixed.PROFILE.parts, *many)))
    lead = report_of(replace(facts_of(fixed.capture()), compile=spread)).findings[0].lead
    assert lead == "LLVM took 50% of 2 s. "  # no kernel took a fifth of it
    table = next(t for t in report.tables if t.title == "Kernels")
    assert [[cell.text for cell in row][2:5] for row in table.rows] == [
        ["100 ms", "900 ms", "1 s"],
        ["300 ms", "300 ms", "600 ms"],
    ]
    without = next(t for t in report_of(facts_of(fixed.capture())).tables if t.title == "Kernels")
    assert "LLVM" not in without.columns


def test_a_capture_without_a_profile_says_so() -> None:
    shown = document(fixed.capture("profile"), OPTIONS["compile"](times=True))
    assert "Within the compile: this backend gives no profile." in " ".join(text(shown).split())


def test_a_profile_is_read_as_it_was_saved() -> None:
    assert from_json(Profile, to_json(fixed.PROFILE)) == fixed.PROFILE


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_records_of_other_devices_are_counted(path: Path) -> None:
    taken = load(path)
    facts = facts_of(taken)
    assert facts.missing.startswith("profile is not in this file")
    assert facts.equations.total >= sum(len(r.nodes) for r in taken.jaxpr.module.regions.values())
    assert facts.loops == ()  # the recurrent network is a scan already
    words = text(document(taken, OPTIONS["compile"](times=True)), times=True)
    assert "Equations by line" in words
    assert "Time per stage" in words


def test_lines_in_loops_of_python() -> None:
    code = "def f(x):\n for i in range(3):\n  x = g(x)\n return [h(y)\n   for y in x]\n"
    tells = looped({"k": Source("cell 1", code), "bad": Source("cell 2", "%%jaxpr\nfor x in y:")})
    lines = [n for n in range(1, 6) if tells(Span("cell 1", n, key="k"))]
    assert lines == [3, 4, 5]
    assert tells(Span("cell 2", 2, key="bad")) is None
    assert not tells(Span("cell 9", 2, key="elsewhere"))
