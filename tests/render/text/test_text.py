"""Text of documents: equal to the approved text, stable, and within length and width."""

import re
from dataclasses import replace

import pytest

from jaxlens.render.control_chars import visible
from jaxlens.render.document import (
    Code,
    Diff,
    DiffGroup,
    DiffRow,
    Document,
    Findings,
    Fold,
    GraphPane,
    Line,
    Listing,
    Picture,
    Piece,
    SourceLine,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
    walk,
)
from jaxlens.render.graph.figure import Box, Figure, Panel
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from jaxlens.report import Cell, Finding, Table, cells
from tests.support import sample_documents as sample
from tests.support.documents import approved
from tests.support.paths import TEXTS


def document(*blocks):
    return Document("jaxpr", "taken", blocks)


def listing(*texts):
    return Listing("jaxpr", tuple(Line((Piece(t),)) for t in texts))


def figure():
    return Figure((Panel("main", "f", (Box("x", "x"),), ()),), note="Folded 3 layers.")


def diff(*rows, open=True):
    return Diff("before", "after", (DiffGroup("Group", rows, open=open),))


SAME = Line((Piece("%same"),))
GONE = Line((Piece("%a = add(%b, %c)"),))
WIDE = (
    (Cell("a" * 30), Cell("words go on below their heading"), Cell("1")),
    (Cell("b"), Cell(""), Cell("1,024")),
)
STEP = (cells("trace", "12.1", "1 of 3"),)
LINES = (
    SourceLine(7, "y = b * c", 0.5, "50 %", (Line((Piece("a = mul b c"),)),)),
    SourceLine(8, "z"),
    SourceLine(9, "w", 0.0, "none"),
)
PICTURE = Picture("Lanes", "Lanes: 2", "<svg/>", ("a b",), note="2 more.", legend="Red: a.")
BLOCKS = {
    "columns of times": TableBlock(
        Table("Steps", ("step", "ms", "part"), STEP, right=(1, 2), volatile_columns=(1,))
    ),
    "a table of times": TableBlock(Table("Times", ("step", "ms", "part"), STEP, "", True)),
    "numbers on the right, words wrapped, names whole": TableBlock(
        Table("T", ("name", "what", "count"), WIDE, right=(2,))
    ),
    "no rows": TableBlock(Table("T", ("name",), ())),
    "a diff": diff(DiffRow(GONE, None, "removed", "dce: nobody reads it")),
    "a closed group": diff(DiffRow(SAME, SAME, "same"), open=False),
    "source lines": SourcePane("cell 3", "flops", LINES),
    "folded pieces": Listing("hlo", (Line((Piece("%a = f32[]"), Piece(", metadata={}", "fold"))),)),
    "tabs": Tabs((Tab("One", (listing("1"),), True), Tab("Two", (listing("2"),)))),
    "a drawing": GraphPane(figure(), "f: 1 input."),
    "a picture": PICTURE,
    "a picture without text": replace(PICTURE, text=()),
    "findings": Findings((*sample.findings().findings, Finding("Nobody knows.", "unknown"))),
}


def test_each_kind_of_block_reads_as_approved():
    texts = []
    for name, block in BLOCKS.items():
        brief, whole = (text(document(block), width=60, full=f, times=f) for f in (False, True))
        texts.append(f"### {name}\n{brief[5:]}" + (f"\n=== full{whole[5:]}" * (whole != brief)))
    approved("blocks", "\n\n".join(texts))
    names = BLOCKS["numbers on the right, words wrapped, names whole"]
    assert "a" * 30 in text(document(names), width=40)


def test_how_to_read_a_drawing_is_in_the_page():
    assert "Red: a. 2 more." in html(document(PICTURE))


def test_every_block_reads_as_approved():
    assert text(sample.everything()) + "\n" == (TEXTS / "everything.txt").read_text()


def test_full_text_has_every_tab_fold_and_time():
    written = text(sample.everything(), full=True, times=True)
    assert "HLO:" in written
    assert "target triple" in written
    assert "120.9" in written
    assert "metadata={op_name=" in written
    assert not re.search("full=True|times=True|more lines", written)


@pytest.mark.parametrize("full", [False, True])
def test_text_is_the_same_each_time_and_has_no_blanks_at_line_ends(full):
    written = text(sample.everything(), full=full)
    assert written == text(sample.everything(), full=full)
    assert not re.search(r"[ \t]$", written, re.MULTILINE)


@pytest.mark.parametrize("width", [50, 80, 100, 140])
def test_two_columns_stay_within_the_width(width):
    written = text(document(sample.diff()), width=width, full=True)
    assert max(map(len, written.split("\n"))) <= width
    assert "multiply_tanh_fusion" in written


def test_long_blocks_are_cut_and_say_so():
    block = listing(*map(str, range(1234)))
    written = text(document(block))
    assert written.split("\n")[-2:] == ["199", "... 1,034 more lines; .text(full=True) writes them"]
    assert written.count("\n") == 2 + 200
    assert text(document(block), limit=3).endswith(
        "2\n... 1,231 more lines; .text(full=True) writes them"
    )
    assert text(document(block), full=True).endswith("\n1233")


def test_folds_nest_as_deep_as_programs_do():
    block = listing("core")
    for level in range(5000):
        block = Fold(f"level {level}", (block,), open=True)
    written = text(document(block))
    assert "core" in written
    assert written.count("level") == 5000
    assert sum(1 for step in walk((block,)) if step.move == "leave") == 5000


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x00", "␀"),
        ("\x1b[31m", "␛[31m"),
        ("\n", "␊"),
        ("\x7f", "␡"),
        ("\x9b", "<U+009B>"),
        ("\u202e", "<U+202E>"),
        ("\u2066", "<U+2066>"),
        ("\u200b", "<U+200B>"),
        ("\ud800", "<U+D800>"),
        ("\ufeff", "<U+FEFF>"),
        ("é 変 👩‍🔬\t", "é 変 👩‍🔬\t"),
    ],
)
def test_unseen_characters_become_visible(hidden, shown):
    assert visible(hidden) == shown


def test_hostile_names_neither_steer_the_terminal_nor_break_lines():
    name = "x\x1b[2J\r\n\u202e\ud800"
    line = Line((Piece(name),), line=name)
    blocks = (
        Listing("jaxpr", (line,), name),
        Code("text", name.replace("\n", ""), name),
        Diff(name, name, (DiffGroup(name, (DiffRow(line, line, name, name),)),), name),
        SourcePane(name, name, (SourceLine(1, name, 0.5, name, (line,)),)),
        TableBlock(Table(name, (name,), ((Cell(name),),), name)),
        Fold(name, ()),
        Tabs((Tab(name, (), True),)),
    )
    written = text(Document("jaxpr", name, blocks), full=True)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800]", written)
    written.encode()
