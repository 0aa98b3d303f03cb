"""Data embedded in the HTML: it round-trips, stays small, and cannot break out of its element."""

import json
import re

import pytest

from jaxlens.render.document import Document, Fold, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.html.document_html import body, pane_key
from jaxlens.render.html.marks import MARKS
from jaxlens.render.html.packing import unpacked
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
from tests.support.html_checks import Balance, Untrusted, unrolled

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", '"onx=1 y="', "\ud800", "a\nb"]


def carried(markup, name):
    """What scripts read: each element of data by that name, rows of text behind it."""
    packs = re.findall(rf'<script type="application/json" data-jl={name}>(.*?)</script>', markup)
    texts = [unpacked(pack).split("\n") for pack in packs]
    return [json.loads(head) | ({"rows": rows} if rows else {}) for head, *rows in texts]


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
    atoms = {s: {i: tuple(unrolled(w)) for i, w in n.items()} for s, n in data["atoms"].items()}
    assert atoms == whole.atoms
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
    assert shown in carried(markup, "web")[0]["atoms"]["jaxpr"]
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
    assert data["atoms"] == {"jaxpr": {"e0": 0}}
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
