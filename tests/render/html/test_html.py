"""HTML of documents: well formed, small, escaped, and readable where it is not trusted."""

import json
import re
from dataclasses import replace

import pytest

from jaxlens.render.document import (
    Code,
    Diff,
    DiffGroup,
    DiffRow,
    Document,
    Findings,
    Fold,
    Line,
    Listing,
    Piece,
    SourceLine,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
)
from jaxlens.render.fate_marks import mark
from jaxlens.render.graph.palette import HUES, bar_color, luminance
from jaxlens.render.html.assets import styles
from jaxlens.render.html.document_html import block_html, body, html
from jaxlens.render.html.listing import code_html
from jaxlens.render.html.marks import attr, escaped, ink, pieces, prose
from jaxlens.render.html.packing import unpacked, unstepped
from jaxlens.render.html.payload import Budget
from jaxlens.report import Cell, Finding, Table
from jaxlens.views.listings.panes import HEAD
from tests.support import sample_documents as sample
from tests.support.html_checks import Balance, Untrusted
from tests.support.paths import TEXTS

BLOCKS = [
    sample.source_pane(),
    sample.jaxpr_listing(),
    sample.diff(),
    sample.findings(),
    TableBlock(sample.kernels()),
    sample.llvm(),
    Fold("More", (sample.findings(),)),
    Tabs((Tab("One", (sample.findings(),)), Tab("Two", (Fold("In", ()),)))),
]


def document_of(*blocks):
    return Document("jaxpr", "taken", blocks)


def test_small_document_is_as_approved():
    words = (Piece("a:"), Piece("f32[8]", "type"), Piece(" = "), Piece("mul", "op"))
    line = Line(words, "e1", 1, "cell 3:2")
    lines = (
        SourceLine(2, "a = b * c", 0.5, "1 eqn", (line,), "cell 3:2"),
        SourceLine(3, "a < b"),
    )
    document = document_of(
        SourcePane("cell 3", "share", lines),
        Listing("jaxpr", (Line((Piece("{ "), Piece("lambda", "keyword"))), line), "no more"),
        Diff("before", "after", (DiffGroup("Gone", (DiffRow(line, None, "removed", "dce"),)),)),
    )
    markup = re.sub(r"<script[^>]* data-jl=help>[^<]*</script>", "", body(document))
    split = re.sub(r"(?<=>)(?=<(?:div|pre|details|summary|i|em))", "\n", markup)
    assert split + "\n" == (TEXTS / "small.html.txt").read_text()


@pytest.mark.parametrize(
    "block", [*BLOCKS, *sample.everything().blocks], ids=lambda b: type(b).__name__
)
def test_tags_balance_and_lines_keep_their_words(block):
    Balance(html(document_of(block)))
    seen = Balance(body(document_of(block))).text
    if isinstance(block, Listing):
        for line in block.lines:
            assert "".join(p.text for p in line.pieces) in seen


def test_html_is_the_same_each_time():
    assert html(sample.everything()) == html(sample.everything())


def headed(block):
    """A listing as one pane among many: its head is markup, the rest compressed data."""
    if not isinstance(block, Listing):
        return block
    return replace(block, lines=block.lines[:HEAD], more=block.lines[HEAD:])


def test_every_pane_of_a_train_step_stays_below_100_kB():
    (tabs,) = sample.everything().blocks
    panes = [replace(tab, blocks=tuple(map(headed, tab.blocks))) for tab in tabs.tabs]
    document = replace(sample.everything(), blocks=(Tabs(tuple(panes)),))
    assert len(html(document).encode()) < 100_000


def test_lines_carry_node_and_owner():
    attrs = Balance(body(document_of(sample.jaxpr_listing()))).attrs
    assert ("div", "data-id", "e1") in attrs
    assert ("div", "data-line", "cell 3:9") in attrs


def test_one_source_line_has_one_hue_in_every_pane():
    markup = body(document_of(sample.source_pane(), sample.jaxpr_listing(), sample.diff()))
    seen = {}
    for owner, color in re.findall(
        r'data-line="([^"]+)" style="border-left:3px solid (#\w+)', markup
    ):
        seen.setdefault(owner, set()).add(color)
    assert set(seen) >= {"cell 3:4", "cell 3:7", "cell 3:8", "cell 3:9"}
    assert all(len(colors) == 1 for colors in seen.values())
    assert len(set.union(*seen.values())) == len(seen)


@pytest.mark.parametrize("hue", range(len(HUES)))
def test_bars_stand_out_from_white_and_from_dark(hue):
    light = luminance(bar_color(hue))
    assert 1.05 / (light + 0.05) >= 3
    assert (light + 0.05) / (luminance("#111111") + 0.05) >= 3


def test_first_tab_is_open_and_groups_differ():
    tabs = Tabs((Tab("a", (Tabs((Tab("b", ()), Tab("c", ()))),)), Tab("d", ())))
    markup = body(document_of(tabs, tabs))
    opened = re.findall(r"<details name=(\S+) data-pane=\w+( open)?><summary>(\w)", markup)
    assert [(title, bool(is_open)) for _, is_open, title in opened] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", False),
    ] * 2
    assert len({group for group, _, _ in opened}) == 4
    assert body(Document("jaxpr", "other", (tabs,))) != body(document_of(tabs))


def test_group_names_differ_between_different_outputs():
    tabs = Tabs((Tab("a", ()),))
    names = {re.search(r"name=(\S+) ", body(Document("jaxpr", t, (tabs,))))[1] for t in "xy"}
    assert len(names) == 2


def test_folded_pieces_are_hidden_with_one_toggle():
    markup = body(document_of(Listing("hlo", tuple(sample.hlo_lines("after")))))
    assert markup.count("<input type=checkbox>") == 1
    assert "<tt hidden=1>, metadata={" in markup
    assert "<input" not in body(document_of(sample.findings()))


def test_the_rest_of_long_code_is_deflated_and_what_is_left_out_is_said():
    code = Code("llvm", "\n".join(map(str, range(1000))))
    markup = body(document_of(code))
    assert "600 more lines here where scripts run." in markup
    assert "\n400\n" not in markup
    assert "data-lines=1000" in markup
    budget = Budget(rows=10)
    assert "590 more lines: .text(full=True) has them all." in code_html(code, budget)
    assert "600 more lines: .text(full=True) has them all." in code_html(code)


def test_folds_nest_as_deep_as_programs_do():
    block = Findings((Finding("core"),))
    for level in range(3000):
        block = Fold(f"level {level}", (block,))
    Balance(body(document_of(block)))


HOSTILE = [
    "</pre><script>alert(1)</script>",
    '"onmouseover=alert(1) x="',
    "' onfocus=alert(1) '",
    "&amp;&lt;b&gt;",
    "<img src=x onerror=alert(1)>",
    "</details></div>",
    "--><!-- ",
    "a b=c`>",
    "\x00\x1b[31m",
    "\u202ereversed",
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_and_never_run(name):
    line = Line((Piece(name), Piece(name, "op"), Piece(name, "fold")), name, 0, name)
    table = Table(name, (name,), ((Cell(name, ids=(name,)),),), name)
    document = Document(
        "jaxpr",
        name,
        (
            Listing(name, (line,), name),
            SourcePane(name, name, (SourceLine(1, name, 0.5, name, (line,), name),)),
            Diff(name, name, (DiffGroup(name, (DiffRow(line, line, name, name),)),), name),
            Code("text", name, name),
            Findings((Finding(name, ids=(name,)),)),
            TableBlock(table),
            Fold(name, (TableBlock(table),)),
            Tabs((Tab(name, (), help=name),)),
        ),
    )
    markup = body(document)
    markup.encode()
    seen = Balance(markup)
    assert not {"script", "img"} & set(seen.tags)
    assert not [a for a in seen.attrs if a[1].startswith("on") or a[1] in ("src", "href")]
    assert escaped(name) in markup
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800]", markup)


def test_untrusted_notebooks_keep_text_structure_and_colours():
    document = sample.everything()
    left = Untrusted(html(document)).markup
    assert "<style" not in left and "data-" not in left and "@supports" not in left  # noqa: PT018
    seen, full = Balance(left), Balance(body(document))
    assert seen.text == full.text
    assert seen.tags.count("details") == full.tags.count("details")
    for color in (bar_color(0), bar_color(1), mark("fused").tint, mark("removed").tint, "#e69f00"):
        assert color in left
    assert "linear-gradient" in left
    assert "display:inline-block" in left
    assert left.count("<tt ") == left.count('<tt hidden="1">') > 0


def test_untrusted_listings_name_the_source_line():
    left = Untrusted(html(document_of(sample.jaxpr_listing()))).markup
    assert ' title="cell 3:9"' in left
    assert bar_color(1) in left


def test_behind_the_tabs_of_a_long_document_the_hue_is_a_class_that_the_style_knows():
    pane, long = sample.jaxpr_listing(), Listing("hlo", tuple(sample.hlo_lines("after")) * 2)
    short = body(document_of(Tabs((Tab("a", (pane,)), Tab("b", (pane,))))))
    assert short.count('data-line="cell 3:9" style="border-left') >= 20
    markup = body(document_of(Tabs((Tab("a", (pane,)), Tab("b", (long,))))))
    front, behind = markup.split("<details name=")[1:]
    assert 'data-line="cell 3:9" style="border-left' in front
    assert re.search(r'<div class=hue\d data-line="cell 3:6">', behind)
    assert "border-left" not in behind
    css = styles()
    for hue in range(len(HUES)):
        assert f".hue{hue}{{--hue:{bar_color(hue)}}}" in css


def test_every_inline_style_is_of_a_form_that_untrusted_notebooks_keep():
    document = sample.everything()
    document = replace(document, blocks=(TableBlock(sample.kernels()), *document.blocks))
    styles = [v for _, name, v in Balance(body(document)).attrs if name == "style"]
    assert any("em," in style for style in styles)  # a bar in a table
    bars = [v for v in styles if v.startswith("--bar:")]  # behind tabs these go with our CSS
    assert all(re.fullmatch(r"--bar:[\d.]+em", v) for v in bars)
    styles = [v for v in styles if v not in bars]
    left = [v for _, name, v in Balance(Untrusted(html(document)).markup).attrs if name == "style"]
    assert styles == left


def long_table():
    rows = tuple((Cell(f"name {n}"), Cell(f"{n}", n, bar=n / 40)) for n in range(40))
    return TableBlock(Table("Long", ("name", "n"), rows, right=(1,)))


def long_diff(groups=15):
    group = sample.diff().groups[0]
    return replace(sample.diff(), groups=(group,) * groups)


@pytest.mark.parametrize("block", [long_table(), long_diff()])
def test_what_is_long_behind_a_tab_travels_deflated_and_whole(block, monkeypatch):
    monkeypatch.setattr("jaxlens.render.html.marks._INLINE_LINES", 0)
    whole = block_html(block, ink(document_of(block)))
    markup = body(document_of(Tabs((Tab("a", (sample.jaxpr_listing(),)), Tab("b", (block,))))))
    behind = markup.split("<details name=")[2].partition("data-jl=help")[0]
    assert len(behind) < 0.6 * len(whole)
    said = re.search(r"(\d+) more rows here where scripts run", behind)
    pack = re.search(r"<script[^>]* data-jl=late>(.*?)</script>", behind)
    late = json.loads(unstepped(unpacked(pack[1])))
    assert not Balance(late).open
    rows = re.compile("<tr" if isinstance(block, TableBlock) else "<i[> ](?!</i><b>)")
    shown = behind.replace(pack[0], "")
    assert len(rows.findall(shown)) + len(rows.findall(late)) == len(rows.findall(whole))
    assert len(rows.findall(late)) == int(said[1])


def test_an_open_diff_has_its_first_rows_in_the_page_and_the_rest_deflated():
    markup = body(document_of(long_diff(200)))
    assert len(markup) < 4 * len(body(document_of(long_diff(15))))
    shown = re.sub(r"<script.*?</script>", "", markup)
    rows = sum(len(group.rows) for group in long_diff(200).groups)
    said = int(re.search(r"(\d+) more rows here where scripts run", shown)[1])
    assert len(re.findall("<i[> ](?!</i><b>)", shown)) == rows - said >= 60


def test_tables_have_scopes_captions_and_numbers_on_the_right():
    markup = body(document_of(TableBlock(sample.kernels())))
    assert markup.count("<th scope=col") == 4
    assert "<caption>Kernels</caption>" in markup
    assert re.search(r'class=num style="text-align:right;background:[^"]+"[^>]*>200,704', markup)


def test_volatile_tables_can_be_told():
    assert "<table class=volatile>" in body(document_of(TableBlock(sample.times())))


def test_findings_say_how_they_are_known():
    markup = body(document_of(sample.findings()))
    for label in ("XLA's figure", "measured", "estimate"):
        assert f"<small>{label}</small>" in markup
    assert "<small>counted" not in markup  # most is


def test_neighbouring_pieces_of_a_kind_share_an_element_and_names_are_plain():
    line = Line((Piece("a", "op"), Piece("b", "op"), Piece("c", "name"), Piece("d")))
    assert pieces(line) == "<b>ab</b>cd"
    assert pieces(Line(())) == "<br>"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("e12", " x=e12"),
        ("", ""),
        ("a b", ' x="a b"'),
        ('"', ' x="&quot;"'),
        ("a>b", ' x="a&gt;b"'),
    ],
)
def test_attributes_are_quoted_where_they_must_be(value, written):
    assert attr("x", value) == written


def test_a_diff_names_the_source_line_of_each_run_of_rows():
    owners = {"a": "cell 3:2", "b": "cell 3:2", "c": "cell 3:4", "z": ""}
    a, b, c, z = (Line((Piece(id, "name"),), id, 0, owner) for id, owner in owners.items())
    rows = (
        DiffRow(a, a, "fused"),
        DiffRow(b, None, "removed"),
        DiffRow(c, c, "fused"),
        DiffRow(None, z, "added"),
        DiffRow(a, c, "merged"),
    )
    seen = "".join(
        Balance(body(document_of(Diff("x", "y", (DiffGroup("All", rows),))))).text.split()
    )
    told = "> fused a cell 3:2 a - removed b > fused c cell 3:4 c + added z & merged a "
    assert (told + "cell 3:2 > cell 3:4 c").replace(" ", "") in seen


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("`a-b` is", ["a-b"]),
        ("--checkpoint tries it", ["--checkpoint"]),
        ("try --target=gpu:h100, or `%%hlo --passes`", ["--target=gpu:h100", "%%hlo --passes"]),
        ("below 1.5e-3, not pre--made or x1e-3", ["1.5e-3"]),
        ("it gives -5.8e-11, the program 2e-3.", ["-5.8e-11", "2e-3"]),
    ],
)
def test_what_is_typed_is_code_and_so_does_not_break_at_its_hyphens(text, typed):
    assert re.findall("<code>(.*?)</code>", prose(text)) == typed
