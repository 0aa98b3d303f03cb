"""The steps through the passes: rows by identity, what is gone and why, and their data."""

import json
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest

from jaxlens.captures import load
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.links.match.instruction_fates import between
from jaxlens.notebook.widgets.viewer_requests import step_rows
from jaxlens.program.passes import what
from jaxlens.render.document import Document, Findings, Line, PassRow, PassSteps, Piece
from jaxlens.render.fate_marks import MARKS
from jaxlens.render.html.document_html import body
from jaxlens.render.html.marks import ink
from jaxlens.render.html.passes import data, passes_html
from jaxlens.render.text.document_text import text
from jaxlens.views.passes.pane import passes_blocks
from jaxlens.views.passes.rows import rows
from tests.support import fixed_captures as fixed
from tests.support.documents import approved
from tests.support.html_checks import unrolled
from tests.support.paths import CAPTURES, TEXTS

START = (TEXTS / "passes.before.hlo.txt").read_text()


def changed(program, *lines):
    """The program with lines replaced, each named by its beginning; "" takes a line away."""
    kept = program
    for begin, instead in lines:
        (line,) = [found for found in kept.splitlines() if found.strip().startswith(begin)]
        kept = kept.replace(f"{line}\n", f"  {instead}\n" if instead else "")
    return kept


# x + 0 is x; what read it reads x.
SIMPLER = changed(
    START,
    ("a = ", ""),
    ("zeros", ""),
    ("zero =", ""),
    ("m1", "m1 = f32[8] multiply(x, x)"),
    ("m2", "m2 = f32[8] multiply(x, x)"),
)
LIVE = changed(SIMPLER, ("dead", ""))
SHARED = changed(LIVE, ("m2", ""), ("s = ", "s = f32[8] subtract(e, m1)"))
FOLDED = changed(
    SHARED,
    ("two", ""),
    ("three", ""),
    ("six =", "constant.1 = f32[] constant(6)"),
    ("sixes", "sixes = f32[8] broadcast(constant.1), dimensions={}"),
)
FUSED = (TEXTS / "passes.after.hlo.txt").read_text()
SERIES = {
    "algsimp": SIMPLER,
    "dce": LIVE,
    "cse": SHARED,
    "constant_folding": FOLDED,
    "fusion": FUSED,
}


class SeriesDriver(fixed.FixedDriver):
    """The layer's driver with the passes above."""

    def passes(self):
        self._check("passes")
        texts = {"before_optimizations": START, **SERIES}
        return tuple(
            fixed.dump(i, "simplify" if i else "", name, text, i > 0)
            for i, (name, text) in enumerate(texts.items())
        )


def capture(*missing):
    return replace(fixed.capture(), driver=SeriesDriver(missing))


def steps(**options):
    (found,) = [b for b in passes_blocks(capture(), **options) if isinstance(b, PassSteps)]
    return found


def cells(row):
    return (row.mark, row.line.id, row.gone, row.note)


def differing(before, after):
    listed = rows(between(fixed.module(before), fixed.module(after)))
    return [cells(row) for row in listed if row.mark != "same"]


def test_rows_of_each_step_are_as_approved():
    """What is gone stands where it was, and says why; what is another now, below what it was."""
    other = changed(START, ("e = ", "e = f32[8] exponential(dead)"))
    lines = []
    for (name, after), before in zip(SERIES.items(), [START, *SERIES.values()], strict=False):
        lines += ["", name]
        for row in rows(between(fixed.module(before), fixed.module(after))):
            lines.append(" ".join(map(str, cells(row))))
    lines += ["", "another operand", *(" ".join(map(str, row)) for row in differing(START, other))]
    approved("views/rows_of_passes", "\n".join(lines[1:]))


def test_another_layout_or_attribute_or_place_is_told():
    turned = START.replace("a = f32[8] add", "a = f32[8]{0:T(8)} add")
    assert differing(START.replace("a = f32[8] add", "a = f32[8]{0} add"), turned) == [
        ("adjusted", "a", False, "layout {0:T(8)}, was {0}")
    ]
    exact = START.replace("exponential(m1)", "exponential(m1), result_accuracy={mode=highest}")
    assert differing(START, exact) == [("adjusted", "e", False, "another result_accuracy")]


def test_a_computation_that_got_another_name_is_the_same_one():
    named = FUSED.replace("fused_computation", "fused_add")
    (row,) = [
        row
        for row in rows(between(fixed.module(FUSED), fixed.module(named)))
        if row.mark != "same" and not row.line.id
    ]
    assert (row.mark, row.gone, row.note) == ("renamed", False, "was fused_computation")


def test_a_computation_that_is_gone_keeps_its_title():
    listed = rows(between(fixed.module(FUSED), fixed.module(LIVE)))
    titles = [row for row in listed if not row.line.id and row.gone]
    assert all("fused_computation" in row.line.pieces[0].text for row in titles)


def test_steps_carry_counts_and_meanings():
    block = steps()
    assert [(step.index, step.name, step.size, step.did) for step in block.steps] == [
        (0, "before_optimizations", 14, ""),
        (1, "algsimp", 11, "3 removed"),
        (2, "dce", 10, "1 removed"),
        (3, "cse", 9, "1 merged"),
        (4, "constant_folding", 7, "1 rewritten, 1 folded, 2 removed, 1 added"),
        (5, "fusion", 9, "6 fused, 1 added"),
    ]
    assert (
        block.steps[3].meaning == "Keeps one of several instructions that compute the same value."
    )
    assert block.note == ""


def programs(record):
    stages = load(record).passes
    kept = [stages[0], *(stage for stage in stages[1:] if stage.changed)]
    return [(a.stage.module, b.stage.module) for a, b in pairwise(kept)]


@pytest.mark.parametrize("record", CAPTURES, ids=lambda path: path.stem)
def test_rows_hold_each_program_once_and_marks_agree_with_the_counts(record):
    for before, after in programs(record):
        change = between(before, after)
        listed = rows(change)
        staying = [row.line.id for row in listed if not row.gone and row.line.id]
        inner = {
            node.id
            for name, region in after.regions.items()
            if name != after.entry
            for node in region.nodes
            if node.opcode == "parameter"
        }
        assert staying == [node.id for node in after.nodes() if node.id not in inner]
        gone = {row.line.id: row for row in listed if row.gone and row.line.id}
        for node in before.nodes():
            fate = change.fates[node.id]
            if fate.name in ("removed", "folded", "merged") and node.opcode != "parameter":
                assert node.id in gone
            if node.id in gone:
                assert gone[node.id].mark == fate.name
        if what(change).endswith("only"):
            assert {row.mark for row in listed} <= {"same", "adjusted", "renamed"}


def id_of(line):
    text, id = line[:2]
    return (id or "") if id != 1 else plain(text).removeprefix("ROOT ").split(" ")[0]


def plain(text):
    return "".join(character for character in text if character > "\x08")


def pages(block):
    """The rows as a reader of the data sees them."""
    payload = data(block)
    letters = {letter: words[0] for letter, words in payload["marks"].items()}
    notes = ["", *payload["notes"]]
    return [
        [
            (letters[letter.lower()], id_of(payload["lines"][line]), letter.isupper(), notes[note])
            for letter, line, note in zip(
                step["marks"], accumulate(step["lines"]), step["notes"], strict=True
            )
        ]
        for step in payload["steps"]
    ]


def test_data_says_what_the_rows_say():
    block = steps()
    assert pages(block) == [[cells(row) for row in step.rows] for step in block.steps]
    words = [plain(text) for text, *_ in data(block)["lines"]]
    assert "m1 = f32[8] multiply(a, a)" in words
    assert len(words) == len(set(words))


def test_atoms_stand_with_the_lines_they_belong_to():
    def atoms(module):
        return {node.id: (3, 4, 5) for node in module.nodes() if node.id == "e"}

    payload = data(steps(atoms=atoms))
    assert {id_of(line): unrolled(line[3:]) for line in payload["lines"] if line[3:]} == {
        "e": [3, 4, 5]
    }


def test_what_is_too_long_is_counted_and_said_and_asked_for():
    block = steps(limit=len(SIMPLER) + len(LIVE))
    assert [step.rows is None for step in block.steps] == [False, False, False, True, True, True]
    assert [step.size for step in block.steps] == [14, 11, 10, 9, 7, 9]
    assert block.note.startswith("The rows of 3 steps are left out here")
    answer = step_rows(capture(), 3)
    assert json.loads(json.dumps(answer))["steps"][0]["title"] == block.steps[3].title
    assert pages(PassSteps(steps().steps[3:4], ()))[0][3] == ("merged", "m2", True, "with m1")
    assert answer["steps"][0]["marks"] == data(steps())["steps"][3]["marks"]


def test_rows_that_do_not_fit_an_output_are_left_out(monkeypatch):
    block = steps()
    whole = passes_html(block, ink(Document("hlo", "", (block,))))
    monkeypatch.setattr("jaxlens.render.html.passes._SHARE", 1200)
    cut = passes_html(block, ink(Document("hlo", "", (block,))))
    assert len(cut) < len(whole)
    assert "are left out here" in cut
    assert "are left out here" not in whole


def test_asking_for_no_step_names_those_there_are():
    with pytest.raises(OptionError, match="no pass 9 that changed the program; choose from 1, 2"):
        step_rows(capture(), 9)
    with pytest.raises(UnavailableError):
        step_rows(capture("passes"), 1)


def test_without_scripts_a_table_says_it():
    markup = body(Document("hlo", "f", (steps(),)))
    for words in ("algsimp", "1 rewritten, 1 folded", "Keeps one of several instructions"):
        assert words in markup
    assert "--bar:" in markup  # the bars of sizes


def test_text_is_the_timeline_and_what_passes_are_for():
    written = text(Document("hlo", "f", tuple(passes_blocks(capture()))))
    assert [line for line in written.splitlines() if line in ("Passes", "What they are for")] == [
        "Passes",
        "What they are for",
    ]
    (line,) = [line for line in written.splitlines() if line.split()[:2] == ["3", "cse"]]
    assert line.split() == ["3", "cse", "10", "9", "1", "merged"]


def test_a_large_program_counts_the_passes_it_dumped():
    class Large(SeriesDriver):
        def recorded(self):
            return frozenset()

        def fusing(self):
            return tuple(
                stage for stage in self.passes() if stage.name in ("before_optimizations", "fusion")
            )

    large = replace(fixed.capture(), driver=Large())
    sentences, block = passes_blocks(large)
    assert isinstance(sentences, Findings)
    assert "only the passes that fuse were dumped" in sentences.findings[-1].text
    assert [(step.name, step.size, step.rows) for step in block.steps] == [
        ("before_optimizations", 14, None),
        ("fusion", 9, None),
    ]


def test_names_are_data():
    name = "</script><img src=x onerror=alert(1)>"
    line = Line((Piece(name, "name"),), name)
    block = steps()
    rows_ = (PassRow("removed", line, True, name),)
    hostile = replace(block.steps[0], title=name, name=name, rows=rows_)
    block = replace(block, steps=(hostile, *block.steps[1:]))
    assert "<img" not in body(Document("hlo", name, (block,)))
    assert id_of(data(block)["lines"][0]) == name


def test_rows_have_the_hues_of_their_lines_where_nothing_else_names_them():
    block = next(b for b in passes_blocks(load(CAPTURES[3])) if isinstance(b, PassSteps))
    owners = data(block, ink(Document("hlo", "", (block,))).hues)["owners"]
    assert owners
    assert all(hue >= 0 for _, hue in owners)


def test_every_mark_has_a_letter_and_a_sign():
    signs = data(steps())["marks"]
    assert [signs[letter][0] for letter in "abcdefghij"] == list(MARKS)
    assert len({words[1] for words in signs.values()}) == len(MARKS)
