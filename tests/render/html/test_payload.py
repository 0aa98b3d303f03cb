"""Data embedded in the HTML: it round-trips, stays small, and cannot break out of its element."""

import json
import re
from html import unescape

import pytest

from jaxlens.render.document import Document, Findings, Fold, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.html.document_html import body, pane_key
from jaxlens.render.html.marks import MARKS
from jaxlens.render.html.packing import unpacked, unstepped
from jaxlens.render.html.payload import (
    Budget,
    data_html,
    lines_data,
    more_html,
    runs,
    web_data,
    web_html,
)
from jaxlens.render.link_data import Web
from jaxlens.report import Finding
from tests.support.html_checks import Balance, Untrusted, atoms_by_id, unrolled

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", '"onx=1 y="', "\ud800", "a\nb"]


def carried(markup, name):
    """What scripts read: each element of data by that name, rows of text behind it."""
    packs = re.findall(rf'<script type="application/json" data-jl={name}>(.*?)</script>', markup)
    texts = [unstepped(unpacked(pack)).split("\n") for pack in packs]
    return [json.loads(h) | {"rows": rows} if rows else json.loads(h) for h, *rows in texts]


@pytest.mark.parametrize(
    ("atoms", "written"),
    [
        ((), []),
        ((7,), [7]),
        ((3, 4), [3, -1]),
        ((5, 3, 4, 4, 9), [3, -2, 9]),
        ((0, 1, 2, 5, 6, 8), [0, -2, 5, -1, 8]),
    ],
)
def test_sets_of_atoms_are_written_as_runs_and_come_back(atoms, written):
    assert runs(atoms) == written
    assert unrolled(written) == sorted(set(atoms))


def web(names=("e0", "e1")):
    a, b = names
    return Web(
        atoms={"jaxpr": {a: (0,), b: (0, 1, 2)}, "optimized": {a: (2,)}},
        lines={"cell 3:4": (0, 1)},
        calls={"cell 3:5": (2,)},
        fates={a: "fused into loop_fusion", b: "dead"},
        ends={b: 7},
        how={"optimized": {"": "stamped", a: "inferred"}},
        stacks=(("cell 3:4 in f", "lib.py:9 in g"),),
        stack={a: 0, b: 0},
        made={b: ("transpose", "jvp")},
    )


def test_a_web_comes_back_from_the_page_as_it_was():
    whole = web()
    markup = body(Document("jaxpr", "f", (), whole))
    (data,) = carried(markup, "web")
    assert {stage: atoms_by_id(nodes) for stage, nodes in data["atoms"].items()} == whole.atoms
    assert {i: tuple(unrolled(w)) for i, w in data["lines"].items()} == whole.lines
    assert {i: tuple(unrolled(w)) for i, w in data["calls"].items()} == whole.calls
    assert (data["fates"], data["ends"], data["stack"]) == (whole.fates, whole.ends, whole.stack)
    assert data["how"] == whole.how
    assert data["stacks"] == [list(stack) for stack in whole.stacks]
    assert data["made"] == {"e1": ["transpose", "jvp"]}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_inside_the_data_and_are_those_of_the_html(name):
    line = Line((Piece(name, "op"),), name, 0, name)
    listing = Listing("jaxpr", (line,), more=(line, line))
    markup = body(Document("jaxpr", name, (listing,), web((name, "e1"))))
    seen = Balance(markup)
    assert seen.tags.count("script") == 2
    shown = next(value for _, attr, value in seen.attrs if attr == "data-id")
    assert shown in carried(markup, "web")[0]["atoms"]["jaxpr"][0]
    (more,) = carried(markup, "more")
    assert more["ids"] == [shown, 2]
    assert len(more["rows"]) == len(more["ids"]) == len(more["owner"]) == 2


def test_lines_beyond_those_shown_travel_with_their_owners_and_width():
    lines = [Line((Piece(f"x{n} = "), Piece("add", "op")), f"e{n}", 1, "a:1") for n in range(3)]
    data = lines_data([*lines, Line(())])
    assert data["rows"].split("\n") == [*(f"  x{n} = {MARKS['op']}add" for n in range(3)), ""]
    assert data["ids"] == ["e0", 3, 3, 0]
    assert (data["lines"], data["owner"], data["wide"]) == (["a:1"], [1, 1, 1, 0], 10)


def words(count):
    return tuple(
        Line((Piece(f"v{n * n} = f32[{n}] add(v{n * 7919 % 1013})"),), f"e{n}")
        for n in range(count)
    )


def test_what_does_not_fit_is_counted_and_said():
    lines = words(4000)
    budget = Budget(bytes=20_000)
    element, left = more_html(lines, budget)
    assert 0 < left < 4000
    assert len(element) + budget.bytes == 20_000
    (data,) = carried(element, "more")
    assert data["left"] == left
    assert len(data["ids"]) == len(data["rows"]) == 4000 - left
    assert more_html(lines, Budget(rows=10))[1] == 3990
    assert more_html(lines, Budget(0, 0)) == ("", 4000)
    markup = body(Document("hlo", "f", (Listing("hlo", lines[:5], "the note", lines[:99]),)))
    assert "99 more lines here where scripts run." in markup
    assert "the note" in markup


@pytest.mark.parametrize(
    ("stage", "most", "kind"),
    [("jaxpr", 99, "static-only"), ("jaxpr", 9_000, "saved-only"), ("hlo", 99, "remark")],
)
def test_a_note_of_more_equations_goes_where_they_are_shown(monkeypatch, stage, most, kind):
    monkeypatch.setattr("jaxlens.render.html.document_html.Budget", lambda **_: Budget(9_000))
    lines = words(most)
    markup = body(Document("jaxpr", "f", (Listing(stage, lines[:5], "the note", lines),)))
    assert re.search(rf"<div class={kind}[^>]*>the note</div>", markup)


def test_an_output_in_a_notebook_has_300_kB_and_a_saved_page_has_all():
    lines = words(60_000)
    document = Document("hlo", "f", (Listing("hlo", lines[:5], more=lines), findings()), web())
    markup, whole = body(document), body(document, whole=True)
    assert 200_000 < len(markup) < 300_000 < len(whole)
    assert 'The page that .save("x.html") writes has them all.' in markup
    assert ".save" not in whole
    assert len(carried(whole, "more")[0]["rows"]) == 60_000


def findings():
    return Findings((Finding("5,000 fusions.", ids=tuple(f"fusion.{n}" for n in range(5_000))),))


def test_many_names_and_long_folds_are_data_which_scripts_put_back():
    fold = ", ".join(f"%arg{n}: tensor<4xf32>" for n in range(5_000))
    line = Line((Piece("func.func", "op"), Piece(fold, "fold"), Piece(") {")))
    blocks = (findings(), Listing("stablehlo", (line,)))
    markup = body(Document("hlo", "f", blocks))
    assert len(markup) < 5_000
    assert "5,000 fusions." in markup
    assert ") {" in markup
    ids, tail = carried(markup, "late")
    assert ids == [" ".join(f"fusion.{n}" for n in range(5_000))]
    assert unescape(tail) == f"<tt hidden=1>{fold}</tt>"


def test_the_glossary_of_a_long_program_has_the_words_that_it_has(monkeypatch):
    lines = tuple(Line((Piece(f"x{n} = "), Piece("tanh", "op"))) for n in range(2_000))
    last = Line((Piece("y = "), Piece("cumsum", "op")))
    document = Document("jaxpr", "f", (Listing("jaxpr", lines[:9], more=(*lines, last)),))
    (said,) = carried(body(document), "help")
    assert said["primitive"].keys() == {"tanh", "cumsum"}
    monkeypatch.setattr("jaxlens.render.html.document_html.ROWS", 1_000)
    (said,) = carried(body(document), "help")
    assert {"tanh", "cumsum", "sin"} <= said["primitive"].keys()


def test_a_document_keeps_to_its_budget(monkeypatch):
    monkeypatch.setattr(
        "jaxlens.render.html.document_html.Budget", lambda **_: Budget(60_000, 20_000)
    )
    lines = words(9000)
    listings = tuple(Listing(stage, lines[:1], more=lines) for stage in ("jaxpr", "hlo", "asm"))
    markup = body(Document("hlo", "f", listings, web()))
    packs = re.findall(r"data-jl=(?:more|web)>(.*?)</script>", markup)
    assert len(packs) == 4
    assert 50_000 < sum(map(len, packs)) < 60_000
    assert "more lines in a live session." in markup


def test_links_give_way_in_parts_where_they_are_too_much():
    stacks = tuple((f"cell {n * 7919}:{n} in f", f"lib/x{n * 104729}.py:{n}") for n in range(4000))
    large = Web(atoms={"jaxpr": {"e0": (0,)}}, stacks=stacks, stack={"e0": 3})
    (data,) = carried(web_html(large, Budget(20_000)), "web")
    assert data["left"] == ["stacks", "stack"]
    assert atoms_by_id(data["atoms"]["jaxpr"]) == {"e0": (0,)}
    assert "stacks" in web_data(large)


def test_data_of_a_large_program_is_small():
    atoms = {
        stage: {f"{stage}.{n}": (n, n + 1) for n in range(20_000)}
        for stage in ("jaxpr", "stablehlo", "hlo")
    }
    assert len(web_html(Web(atoms), Budget())) < 600_000


def test_an_untrusted_notebook_has_no_data_and_all_lines_that_stood_there():
    lines = words(30)
    document = Document("hlo", "f", (Listing("hlo", lines[:20], more=lines[20:]),), web())
    left = Untrusted(body(document)).markup
    assert "script" not in left.replace("where scripts run", "")
    assert all(piece.text in Balance(left).text for line in lines[:20] for piece in line.pieces)


def test_panes_and_kernels_have_names():
    tabs = Tabs((Tab("Your code", (), key="source"), Tab("HLO before/after", ())))
    assert [pane_key(tab) for tab in tabs.tabs] == ["source", "hlo-before-after"]
    known = Web(atoms={"kernels": {"loop_fusion": (1,)}})
    markup = body(Document("compile", "f", (tabs, Fold("loop_fusion: adds", ())), known))
    assert "data-pane=source open" in markup
    assert "<summary data-stage=kernels data-id=loop_fusion>loop_fusion: adds" in markup


def test_data_is_ascii():
    assert data_html("x", {"ü": "\u2028"}).isascii()
