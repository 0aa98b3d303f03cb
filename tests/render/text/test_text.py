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
from jaxlens.report import Cell, Table, cells
from tests.support import sample_documents as sample
from tests.support.paths import TEXTS


def document(*blocks):
    return Document("jaxpr", "taken", blocks)


def listing(*texts):
    return Listing("jaxpr", tuple(Line((Piece(t),)) for t in texts))


def figure():
    return Figure((Panel("main", "f", (Box("x", "x"),), ()),), note="Folded 3 layers.")


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


def test_columns_of_times_are_left_out_of_a_table_whose_others_stay():
    rows = (cells("trace", "12.1", "1 of 3"),)
    table = Table("Steps", ("step", "ms", "part"), rows, right=(1, 2), volatile_columns=(1,))
    lines = text(document(TableBlock(table))).splitlines()
    assert [line.split() for line in lines[-4:]] == [
        ["step", "part"],
        ["-----", "------"],
        ["trace", "1", "of", "3"],
        [".text(times=True)", "writes", "its", "times", "too."],
    ]
    assert "12.1" in text(document(TableBlock(table)), times=True)


def test_times_are_left_out_with_a_line_that_says_how_to_get_them():
    block = TableBlock(
        Table("Time per stage", ("stage", "ms"), (cells("trace", "12.1"),), "", True)
    )
    assert text(document(block)).endswith(
        "Time per stage: left out, it changes from run to run; .text(times=True) writes it"
    )
    assert "12.1" in text(document(block), times=True)


def test_tables_align_numbers_right_and_wrap_words_but_not_names():
    rows = (
        (Cell("a" * 30), Cell("words go on below their heading"), Cell("1")),
        (Cell("b"), Cell(""), Cell("1,024")),
    )
    block = TableBlock(Table("T", ("name", "what", "count"), rows, right=(2,)))
    assert text(document(block), width=60).split("\n")[3:] == [
        "  name                            what                 count",
        "  ------------------------------  -------------------  -----",
        "  " + "a" * 30 + "  words go on below        1",
        "                                  their heading",
        "  b                                                    1,024",
    ]
    assert "a" * 30 in text(document(block), width=40)


def test_a_table_without_rows_says_so():
    assert "(no rows)" in text(document(TableBlock(Table("T", ("name",), ()))))


@pytest.mark.parametrize("width", [50, 80, 100, 140])
def test_two_columns_stay_within_the_width(width):
    written = text(document(sample.diff()), width=width, full=True)
    assert max(map(len, written.split("\n"))) <= width
    assert "multiply_tanh_fusion" in written


def test_a_diff_row_has_its_fate_as_word_and_sign_and_its_note():
    left = Line((Piece("%a = add(%b, %c)"),))
    group = DiffGroup("Gone", (DiffRow(left, None, "removed", "dce: nobody reads it"),))
    written = text(document(Diff("before", "after", (group,))))
    assert re.search(r"%a = add\(%b, %c\) +- removed +\(dce: nobody reads it\)", written)


def test_a_closed_group_is_one_line_until_full():
    line = Line((Piece("%same"),))
    group = DiffGroup("Unchanged", (DiffRow(line, line, "same"),), open=False)
    block = Diff("before", "after", (group,))
    assert "[+] Unchanged (1 row; .text(full=True) opens it)" in text(document(block))
    assert "%same" in text(document(block), full=True)


def test_long_blocks_are_cut_and_say_so():
    block = listing(*map(str, range(1234)))
    written = text(document(block))
    assert written.split("\n")[-2:] == ["199", "... 1,034 more lines; .text(full=True) writes them"]
    assert written.count("\n") == 2 + 200
    assert text(document(block), limit=3).endswith(
        "2\n... 1,231 more lines; .text(full=True) writes them"
    )
    assert text(document(block), full=True).endswith("\n1233")


def test_source_lines_have_number_bar_and_note_and_open_when_full():
    under = (Line((Piece("a = mul b c"),)),)
    lines = (
        SourceLine(7, "y = b * c", 0.5, "50 %", under),
        SourceLine(8, "z"),
        SourceLine(9, "w", 0.0, "none"),
    )
    pane = SourcePane("cell 3", "flops", lines)
    assert text(document(pane)).split("\n")[2:] == [
        "cell 3  (flops)",
        "  7 | y = b * c  ####      50 %",
        "  8 | z",
        "  9 | w                    none",
    ]
    assert "    :     a = mul b c" in text(document(pane), full=True)


def test_folded_pieces_show_only_in_full():
    block = Listing("hlo", (Line((Piece("%a = f32[]"), Piece(", metadata={}", "fold"))),))
    assert "metadata" not in text(document(block))
    assert "%a = f32[], metadata={}" in text(document(block), full=True)


def test_tabs_not_in_the_text_are_named():
    tabs = Tabs((Tab("One", (listing("1"),), True), Tab("Two", (listing("2"),))))
    assert text(document(tabs)) == (
        "taken\n\nOne:\n\n  1\n\nAlso here (.text(full=True) writes them): Two."
    )


def test_a_drawing_is_told_in_words():
    written = text(document(GraphPane(figure(), "f: 1 input.")))
    assert "Drawing: f: 1 input. Folded 3 layers. (.svg() and .dot() give it)" in written


def test_how_to_read_a_drawing_is_not_in_the_text():
    picture = Picture("Lanes", "Lanes: 2", "<svg/>", ("a b",), note="2 more.", legend="Red: a.")
    assert text(document(picture)) == "taken\n\nLanes:\na b\n2 more."
    without = text(document(replace(picture, text=())))
    assert without == "taken\n\nDrawing: Lanes: 2 (.svg() gives it)\n2 more."
    assert "Red: a. 2 more." in html(document(picture))


def test_folds_nest_as_deep_as_programs_do():
    block = listing("core")
    for level in range(5000):
        block = Fold(f"level {level}", (block,), open=True)
    written = text(document(block))
    assert "core" in written
    assert written.count("level") == 5000
    assert sum(1 for step in walk((block,)) if step.move == "leave") == 5000


def test_findings_say_how_they_are_known():
    block = sample.findings()
    written = text(document(block))
    for label in ("[XLA's figure]", "[measured]", "[estimate]"):
        assert label in written
    assert "[counted]" not in written  # most is
    unknown = replace(block.findings[0], trust="unknown")
    assert "[unknown]" in text(document(Findings((unknown,))))


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
