"""Which glossary entries an HTML document contains, and their text."""

from jaxlens.ir import lessons
from jaxlens.ir.glossary import address, entry
from jaxlens.render.document import (
    Diff,
    DiffGroup,
    DiffRow,
    Document,
    Line,
    Listing,
    PassStep,
    PassSteps,
    Piece,
    SourceLine,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
)
from jaxlens.render.html.document_html import body
from jaxlens.render.html.glossary_help import help_data, lesson_links
from jaxlens.report import Table, cells
from tests.support.documents import approved

TOLD = ("pages", "texts", "lessons")


def help_of(*blocks):
    return help_data(Document("jaxpr", "f(x)", blocks))


def row(op, *attributes, id="e1", kind="attr"):
    return Line((Piece("a = "), Piece(op, "op"), *(Piece(t, kind) for t in attributes)), id)


def test_a_word_has_its_sentence_and_its_page():
    data = help_of(Listing("jaxpr", (row("tanh"),)))
    sentence, page, lesson, *texts = data["primitive"]["tanh"]
    known = entry("primitive", "tanh")
    assert sentence == known.sentence
    assert tuple(data["texts"][place] for place in texts) == known.expert
    assert lesson == known.lesson
    assert data["lessons"][lesson].startswith("lesson 12, A table of rules")
    assert data["pages"][page] == ["jax.lax.tanh", address("jax.lax.tanh")]


FUSION = row("fusion", ', metadata={op_name="f"}', kind="fold")
NAMED = (("ROOT ", "keyword"), ("ynn_fusion.3", "name"), ("f32[4,8]{0,1}", "type"))
STEPS = (
    PassStep(0, "before", "before_optimizations", 4),
    PassStep(1, "simplification", "start of simplification", 4),
    PassStep(2, "new", "brand-new-pass", 3),
)
KERNELS = Table("Kernels", ("kernel", "kind"), (cells("dot.1", "thunk"), cells("x", "kernel")))
BROADCAST = row("broadcast_in_dim", "shape=(2, 3)", " sharding=None")
CALL = row("custom-call", ', custom_call_target="xla_ffi_python_cpu_callback"')
WORDS = {
    "those that occur": Listing("jaxpr", (row("tanh"), row("my_own"))),
    "attributes, alone unless they mean something of their own": Listing(
        "jaxpr", (BROADCAST, row("scan", "length=8"))
    ),
    "values and targets": Listing("optimized", (row("fusion", ", kind=kLoop, calls=f"), CALL)),
    "what is folded or stands behind a fusion": Listing(
        "optimized", (Line((*FUSION.pieces, Piece("  // compare, direction=LT", "comment"))),)
    ),
    "lines under the code": SourcePane("cell 1", "", (SourceLine(1, "x", under=(row("add"),)),)),
    "lines of diffs": Diff(
        "a", "b", (DiffGroup("g", (DiffRow(row("add", id="add.1"), None, "gone"),)),)
    ),
    "lines beyond those shown": Listing("jaxpr", (row("add"),), more=(row("tanh"),)),
    "an op in quotes": Listing("stablehlo", (row('"stablehlo.scatter"'),)),
    "ptx beside machine code": Listing("asm", (row("fma.rn.f32"), row("vfmadd213ps"))),
    "names, types and keywords": Listing(
        "optimized", (Line((*(Piece(*p) for p in NAMED), Piece("fusion", "op"))),)
    ),
    "cells of tables": TableBlock(KERNELS),
    "passes": PassSteps(STEPS, ()),
}


def test_words_that_travel():
    lines = []
    for case, block in WORDS.items():
        lines += ["", f"{case}:"]
        for kind, entries in help_of(block).items():
            if kind not in TOLD:
                lines.append(f"  {kind}: {', '.join(sorted(entries))}")
    approved("words_that_travel", "\n".join(lines[1:]))
    unknown = help_of(WORDS["passes"])["pass"]["brand-new-pass"]
    assert unknown[0].startswith("Unknown")


def test_one_word_means_another_thing_in_another_stage():
    blocks = [Listing(stage, (row("add"),)) for stage in ("jaxpr", "optimized", "llvm", "asm")]
    data = help_of(Tabs(tuple(Tab(block.stage, (block,)) for block in blocks)))
    said = [data[kind]["add"][0] for kind in ("primitive", "instruction", "llvm")]
    assert len(set(said)) == 3
    assert data["asm"]["add"][0] == "Adds integers."


def test_a_long_program_takes_every_word_of_its_kind_along():
    lines = tuple(row("add") for _ in range(1001))
    data = help_of(Listing("jaxpr", lines[:1], more=lines))
    assert {"add", "tanh", "scan", "psum"} < set(data["primitive"])
    assert {"length", "scan.jaxpr", "dimension_numbers"} < set(data["attribute"])
    assert len(data["primitive"]["add"]) > 3  # it was seen in the lines that are scanned
    assert len(data["primitive"]["tanh"]) == 3
    assert len(data["texts"]) < 20


def test_an_output_without_known_words_carries_nothing():
    assert help_of(Listing("jaxpr", (row("my_own"),))) == {}
    assert "data-jl=help" not in body(Document("jaxpr", "f", (Listing("jaxpr", ()),)))
    assert "data-jl=help" in body(Document("jaxpr", "f", (Listing("jaxpr", (row("add"),)),)))


def test_a_text_for_several_words_travels_once():
    data = help_of(Listing("optimized", (row("add"), row("subtract"))))
    assert data["instruction"]["add"][3:] == data["instruction"]["subtract"][3:]
    assert len(data["texts"]) == 2


def test_lessons_are_links_where_their_notebooks_lie(tmp_path, monkeypatch):
    document = Document("hlo", "f", (Listing("optimized", (row("add"),)),))
    monkeypatch.chdir(tmp_path)
    assert "lesson 22, What is fused (`jaxlens lab`)" in help_data(document)["lessons"].values()
    assert "class=lessons" not in body(document)
    (tmp_path / "22_what_is_fused.ipynb").write_text("")
    data = help_data(document)
    assert data["lessons"] == {22: "lesson 22, What is fused"}
    assert "<a data-lesson=22 href=22_what_is_fused.ipynb>" in lesson_links(data)
    assert lesson_links(data) in body(document)


def test_a_course_on_the_web_is_linked_where_the_metadata_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(lessons, "_course_address", lambda: "https://example.org/course")
    assert lessons.reference(22, tmp_path) == (
        "lesson 22, What is fused",
        "https://example.org/course",
    )
