"""The viewer on saved HTML in a real browser, against links computed in Python."""

import pytest

from jaxlens.render.document import (
    Code,
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
from jaxlens.render.html import document_html as html_module
from jaxlens.render.html import payload
from jaxlens.render.html.document_html import html
from jaxlens.render.link_data import Web
from jaxlens.report import Cell, Finding, Table
from tests.browser.test_faces import CONTRAST

PAGE = "<!doctype html><meta charset=utf-8><body data-jp-theme-light={}>{}"
HOSTILE = "</script><img src=x onerror=document.title='run'>"
LONG = 20_000


@pytest.fixture
def saved(chromium, tmp_path):
    """`saved(*documents) -> page`: a saved file of these outputs, opened without any network."""
    pages, asked, wrong = [], [], []

    def saved_(*fragments, width=1200, light=True, page=None, markup=None):
        path = tmp_path / "saved.html"
        path.write_text(PAGE.format("true" if light else "false", markup or "".join(fragments)))
        if page is None:
            page = chromium.new_page(viewport={"width": width, "height": 900})
            page.set_default_timeout(8000)
            pages.append(page)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"file://{path}")
        page.wait_for_selector(".jaxlens .bar", state="attached")
        page.evaluate(
            "Promise.all([...document.querySelectorAll('.jaxlens')].map(r => r.jaxlens.ready))"
        )
        return page

    yield saved_
    for page in pages:
        page.close()
    assert not [url for url in asked if not url.startswith(("data:", "file:"))]
    assert not wrong


def program(stage, prefix, count, owner):
    return tuple(
        Line(
            (Piece(f"{prefix}{n}", "name"), Piece(" = "), Piece(f"op{n % 7}", "op")),
            f"{prefix}{n}",
            1,
            owner(n),
        )
        for n in range(count)
    )


def of_line(n):
    return f"cell 3:{2 + n % 4}" if n % 4 < 3 else ""


def a_document(long=0, name="f(x)"):
    """Three stages linked by hand: op n is of equation n, instruction n holds ops 2n and 2n + 1."""
    ops, many = 24, max(long, 12)
    web = Web(
        atoms={
            "jaxpr": {f"e{n}": (n,) for n in range(ops)},
            "stablehlo": {f"s{n}": (n,) for n in range(ops)},
            "optimized": {f"fusion.{n}": (2 * n % ops, (2 * n + 1) % ops) for n in range(many)},
            "kernels": {"fusion.1": (2, 3)},
        },
        lines={f"cell 3:{k}": tuple(n for n in range(ops) if n % 4 == k - 2) for k in (2, 3, 4)},
        calls={"cell 3:5": (1, 5, 9), "cell 3:3": (3,)},
        fates={f"e{n}": f"fused into fusion.{n // 2}" for n in range(ops)},
        how={"optimized": {"": "stamped", "fusion.3": "inferred"}},
        stacks=(("cell 3:3 in f", "lib.py:9 in g"),),
        stack={f"e{n}": 0 for n in range(ops)},
        made={"e1": ("transpose", "jvp")},
    )
    under = {
        k: [x for x in program("jaxpr", "e", ops, of_line) if x.line.endswith(f":{k}")]
        for k in (2, 3, 4)
    }
    source = SourcePane(
        "cell 3",
        "share of 24 eqns",
        tuple(
            SourceLine(
                k,
                f"line_{k} = g(x)",
                len(under.get(k, ())) / ops or None,
                f"{len(under.get(k, ()))} eqns",
                tuple(under.get(k, ())),
                f"cell 3:{k}" if k in under else "",
            )
            for k in range(1, 7)
        ),
    )
    shown = program("optimized", "fusion.", many, of_line)
    table = Table("Kernels", ("kernel",), ((Cell("fusion.1", ids=("fusion.1",)),),))
    tabs = (
        Tab("Your code", (source,), key="source"),
        Tab("jaxpr", (Listing("jaxpr", program("jaxpr", "e", ops, of_line)),), key="jaxpr"),
        Tab("StableHLO", (Listing("stablehlo", program("", "s", ops, of_line)),), key="stablehlo"),
        Tab("Optimised HLO", (Listing("optimized", shown[:12], more=shown[12:]),), key="optimized"),
        Tab(
            "Kernels",
            (TableBlock(table), Fold("fusion.1: adds", (Code("llvm", "a\nb b\nc"),))),
            key="kernels",
        ),
        Tab("Said", (Findings((Finding("Two are one.", ids=("e2", "e3")),)),), key="said"),
    )
    return Document("hlo", name, (Tabs(tabs),), web)


LIT = """(mark) => [...document.querySelectorAll('.' + mark)].filter(e => e.checkVisibility())
  .map(e => [e.closest('details[data-pane]').dataset.pane, e.hasAttribute('data-id')
    ? e.dataset.id || e.textContent.trim().replace('ROOT ', '').split(' ')[0]
    : e.parentElement.dataset.line ?? ''].join(' '))"""


def lit(page, mark="lit"):
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return sorted(set(page.evaluate(LIT, mark)))


def linked(web, atoms, stages):
    """What must be lit: everything of the stages that shares an atom."""
    found = {f"{s} {i}" for s in stages for i, own in web.atoms[s].items() if {*own} & {*atoms}}
    return found | {f"source {line}" for line, own in web.lines.items() if {*own} & {*atoms}}


def row(page, pane, id):
    return page.locator(f"details[data-pane={pane}] .listing [data-id]", has_text=f"{id} =").first


def choose(page, *panes):
    """Shows these panes and no others."""
    page.evaluate(
        "panes => { const p = document.querySelector('.jaxlens').jaxlens.panes;"
        " p.shown = panes; p.show(); }",
        list(panes),
    )


@pytest.mark.parametrize("id", ["fusion.0", "fusion.3", "fusion.11"])
def test_hover_lights_what_shares_an_atom_in_every_pane_shown(saved, id):
    document = a_document()
    page = saved(html(document))
    choose(page, "source", "jaxpr", "optimized")
    row(page, "optimized", id).hover()
    expected = linked(document.web, document.web.atoms["optimized"][id], ["jaxpr", "optimized"])
    assert set(lit(page)) == expected
    assert lit(page, "pointed") == [f"optimized {id}"]
    page.mouse.move(2, 2)
    assert lit(page) == lit(page, "pointed") == []


def test_a_source_line_lights_what_it_owns_and_weaker_what_its_calls_made(saved):
    document = a_document()
    page = saved(html(document))
    choose(page, "source", "stablehlo")
    page.locator(".source-lines [data-line='cell 3:3'] > summary").hover()
    owned, called = document.web.lines["cell 3:3"], document.web.calls["cell 3:3"]
    assert set(lit(page)) == {f"stablehlo s{n}" for n in owned}
    assert set(lit(page, "call")) == {f"stablehlo s{n}" for n in called}
    assert lit(page, "pointed") == ["source cell 3:3"]
    page.locator(".source-lines .rows > *", has_text="line_5").hover()
    assert (set(lit(page)), set(lit(page, "call"))) == (
        set(),
        {"stablehlo s1", "stablehlo s5", "stablehlo s9"},
    )


def test_a_line_that_maps_to_nothing_says_so(saved):
    page = saved(html(a_document()))
    page.locator(".source-lines .rows > *", has_text="line_6").hover()
    assert lit(page) == []
    assert "cell 3:6 maps to nothing" in page.locator(".node-details").inner_text()


def test_click_pins_hover_looks_elsewhere_and_escape_lets_go(saved):
    document = a_document()
    page = saved(html(document))
    choose(page, "jaxpr", "optimized")
    row(page, "jaxpr", "e4").click()
    page.mouse.move(2, 2)
    pinned = lit(page)
    assert set(pinned) == {"jaxpr e4", "optimized fusion.2"}
    assert lit(page, "pin") == ["jaxpr e4"]
    row(page, "jaxpr", "e9").hover()
    assert "jaxpr e9" in lit(page)
    assert lit(page, "pin") == ["jaxpr e4"]
    page.mouse.move(2, 2)
    assert lit(page) == pinned
    page.keyboard.press("Escape")
    assert lit(page) == lit(page, "pin") == []
    row(page, "jaxpr", "e4").click()
    row(page, "jaxpr", "e4").click()
    assert lit(page, "pin") == []


def test_the_strip_tells_what_is_pinned_and_leads_to_each_stage(saved):
    page = saved(html(a_document()))
    choose(page, "source", "jaxpr")
    row(page, "jaxpr", "e1").click()
    strip = page.locator(".node-details")
    said = strip.inner_text()
    for words in (
        "e1 op1 in jaxpr: fused into fusion.0",
        "transpose of jvp",
        "StableHLO 1",
        "Optimised HLO 1",
        "cell 3:3 in f",
    ):
        assert words in said
    strip.locator("summary").click()
    assert "lib.py:9 in g" in strip.inner_text()
    strip.get_by_role("button", name="Optimised HLO 1").or_(
        strip.locator("button", has_text="Optimised HLO 1")
    ).first.click()
    assert row(page, "optimized", "fusion.0").is_visible()
    assert "optimized fusion.0" in lit(page)
    assert (
        "pinned, e1 op1: 1 instruction in Optimised HLO"
        in page.locator(".screen-reader").inner_text()
    )


def test_tables_findings_and_kernels_are_linked_too(saved):
    page = saved(html(a_document()))
    choose(page, "kernels", "said", "jaxpr")
    row(page, "jaxpr", "e3").hover()
    marked = page.evaluate(
        "[...document.querySelectorAll('.lit')].map(e => e.localName).sort().join()"
    )
    assert marked == "div,li,summary,td"
    page.locator(".findings li").hover()
    assert set(lit(page, "pointed")) == {"said e2 e3", "jaxpr e2", "jaxpr e3"}


def test_the_page_stays_where_it_is_under_the_pointer(saved):
    page = saved(html(a_document()))
    choose(page, "source", "jaxpr", "optimized")
    boxes = "[...document.querySelectorAll('.jaxlens *')].filter("
    boxes += "e => !e.closest('.node-details,.screen-reader')).map(e => {"
    boxes += " const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })"
    page.wait_for_timeout(300)  # opened panes are fitted in the next frames
    before = page.evaluate(boxes)
    strip = page.locator(".node-details").bounding_box()
    row(page, "jaxpr", "e1").hover()
    assert lit(page)
    assert page.evaluate(boxes) == before
    assert page.locator(".node-details").bounding_box() == strip


def shown(page):
    return page.locator(".bar [aria-pressed=true]").all_inner_texts()


def test_panes_are_remembered_by_the_output(saved):
    one, other = (
        html(a_document()),
        html(
            a_document(name="g(x)").__class__(
                "compile", "g(x)", a_document().blocks, a_document().web
            )
        ),
    )
    page = saved(one)
    assert shown(page) == ["Your code", "Optimised HLO"]
    page.locator(".bar [data-key=jaxpr]").click()
    page.locator(".bar [data-key=stablehlo]").click(modifiers=["Shift"])
    assert shown(page) == ["Your code", "jaxpr", "StableHLO"]
    page = saved(one, page=page)
    assert shown(page) == ["Your code", "jaxpr", "StableHLO"]
    page = saved(other, page=page)
    assert shown(page) == ["Your code", "Kernels"]


def test_a_page_without_storage_works(saved):
    page = saved(html(a_document()))
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw 1 } })")
    page = saved(html(a_document()), page=page)
    page.locator(".bar [data-key=jaxpr]").click()
    assert shown(page) == ["Your code", "jaxpr"]


@pytest.mark.parametrize(("width", "count"), [(1200, 2), (700, 1), (400, 1)])
def test_narrow_outputs_show_one_pane_and_nothing_is_cut_off(saved, width, count):
    page = saved(html(a_document()), width=width)
    assert len(shown(page)) == count
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width == 400:
        page.locator(".bar [data-key=jaxpr]").click(modifiers=["Shift"])
        assert shown(page) == ["jaxpr"]


def test_the_room_between_panes_moves_by_pointer_and_keys(saved):
    page = saved(html(a_document()))
    bar = page.locator(".splitter")
    width = page.locator("details[data-pane=source]").bounding_box()["width"]
    box = bar.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 154, box["y"] + 50)
    page.mouse.up()
    wider = page.locator("details[data-pane=source]").bounding_box()["width"]
    assert wider == pytest.approx(width + 150, abs=6)
    bar.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("details[data-pane=source]").bounding_box()["width"] < wider
    assert 50 < int(bar.get_attribute("aria-valuenow")) < 70


def test_search_counts_goes_round_and_filters(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr")
    head = page.locator("details[data-pane=jaxpr] .pane-head")
    box = head.get_by_role("searchbox")
    box.fill("OP3")
    expected = [f"jaxpr e{n}" for n in range(24) if n % 7 == 3]
    assert head.locator("output").inner_text() == f"1 of {len(expected)}"
    assert lit(page, "hit") == sorted(expected)
    box.press("Enter")
    assert lit(page, "row-cursor") == ["jaxpr e10"]
    box.press("Shift+Enter")
    box.press("Shift+Enter")
    assert head.locator("output").inner_text() == f"{len(expected)} of {len(expected)}"
    head.locator("button", has_text="only").click()
    rows = page.locator("details[data-pane=jaxpr] .listing [data-id]:visible")
    assert rows.count() == len(expected)
    box.press("Escape")
    assert rows.count() == 24
    assert lit(page, "hit") == []


def test_keys_go_through_rows_pin_and_choose_panes(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr", "optimized")
    page.locator("details[data-pane=jaxpr] .pane-body").focus()
    for key in "jjk":
        page.keyboard.press(key)
    assert lit(page, "row-cursor") == ["jaxpr e0"]
    page.keyboard.press("ArrowDown")
    assert set(lit(page)) == {"jaxpr e1", "optimized fusion.0"}
    page.keyboard.press("Enter")
    assert lit(page, "pin") == ["jaxpr e1"]
    page.keyboard.press("]")
    page.keyboard.press("n")
    assert lit(page, "row-cursor")[-1] == "optimized fusion.0"
    page.keyboard.press("Escape")
    assert lit(page, "pin") == []
    page.keyboard.press("3")
    assert shown(page) == ["jaxpr", "StableHLO"]
    page.keyboard.press("/")
    page.keyboard.type("s7")
    assert page.locator("details[data-pane=stablehlo] .pane-head output").inner_text() == "1 of 1"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog", name="Keys").is_visible()


def test_letters_typed_inside_do_not_reach_the_notebook(saved):
    page = saved(html(a_document()))
    page.evaluate(
        "window.heard = []; for (const capture of [true, false])"
        " document.addEventListener('keydown', e => heard.push(e.key), capture)"
    )
    page.locator("details[data-pane=source] .pane-body").focus()
    for key in ["j", "d", "x", "Enter", "Control+s"]:
        page.keyboard.press(key)
    assert [key for key in page.evaluate("heard") if len(key) == 1] == ["s", "s"]


def test_a_panes_text_is_copied(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText = text => { window.text = text }")
    page.locator("details[data-pane=jaxpr] .pane-head button", has_text="copy").click()
    lines = page.evaluate("window.text").split("\n")
    assert len(lines) == 24
    assert lines[3] == "  e3 = op3"


def room(monkeypatch, rows):
    """Lets an output carry so many lines beyond those shown."""
    monkeypatch.setattr(html_module, "Room", lambda **known: payload.Room(**known | {"rows": rows}))


def in_long_list(page):
    return page.evaluate("document.querySelectorAll('.long-list [data-n]').length")


def test_a_long_listing_holds_few_rows_and_all_of_them_can_be_reached(saved, monkeypatch):
    room(monkeypatch, LONG)
    document = a_document(LONG)
    page = saved(html(document))
    choose(page, "optimized", "jaxpr")
    page.wait_for_selector(".long-list [data-n]")
    pane = page.locator("details[data-pane=optimized] .pane-body")
    assert in_long_list(page) < 120
    last = None
    for share in (0.3, 0.77, 1):
        pane.evaluate("(e, share) => { e.scrollTop = share * e.scrollHeight }", share)
        page.wait_for_timeout(50)
        assert in_long_list(page) < 120
        seen = page.locator(".long-list [data-n]").all_inner_texts()
        assert seen != last
        last = seen
    assert f"fusion.{LONG - 1} = op{(LONG - 1) % 7}" in "".join(last)
    box = page.locator("details[data-pane=optimized] .pane-head").get_by_role("searchbox")
    box.fill("fusion.1234")
    assert page.locator("details[data-pane=optimized] output").inner_text() == "1 of 11"
    assert "fusion.1234 = op2" in page.locator(".long-list .row-cursor").inner_text()
    page.locator("details[data-pane=optimized] .pane-head button", has_text="only").click()
    assert in_long_list(page) == 11
    box.press("Escape")
    pane.focus()
    page.keyboard.press("End")
    assert f"fusion.{LONG - 1} =" in page.locator(".long-list .row-cursor").inner_text()


def test_a_highlight_over_a_long_listing_is_right_and_takes_a_frame(saved, monkeypatch):
    room(monkeypatch, LONG)
    document = a_document(LONG)
    page = saved(html(document))
    choose(page, "jaxpr", "optimized")
    page.wait_for_selector(".long-list [data-n]")
    row(page, "jaxpr", "e4").hover()
    seen = set(lit(page))
    visible = {
        r.strip().split(" ")[0] for r in page.locator(".long-list [data-n]").all_inner_texts()
    }
    expected = {i for i, own in document.web.atoms["optimized"].items() if 4 in own} & visible
    assert seen == {"jaxpr e4"} | {f"optimized {i}" for i in expected}
    took = page.evaluate(
        """() => { const links = document.querySelector('.jaxlens').jaxlens.links; const times = [];
        for (let n = 0; n < 20; n++) {
          links.point = { stage: 'jaxpr', id: `e${n}` };
          const start = performance.now(); links.light();
          document.body.getBoundingClientRect(); times.push(performance.now() - start);
        } return times.sort((a, b) => a - b); }"""
    )
    print(f"highlight over {LONG:,} lines: median {took[10]:.1f} ms, most {took[-1]:.1f} ms")
    pane = page.locator("details[data-pane=optimized] .pane-body")
    pane.evaluate("e => { e.scrollTop = 0.5 * e.scrollHeight }")
    row(page, "jaxpr", "e4").click()
    page.keyboard.press("]")
    page.keyboard.press("n")
    assert page.locator(".long-list .row-cursor.lit").count() == 1


def test_the_ruler_shows_distant_matches_and_leads_there(saved, monkeypatch):
    room(monkeypatch, LONG)
    page = saved(html(a_document(LONG)))
    choose(page, "jaxpr", "optimized")
    page.wait_for_selector(".long-list [data-n]")
    ruler = page.locator("details[data-pane=optimized] .ruler")
    inked = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    assert not ruler.evaluate(inked)
    row(page, "jaxpr", "e4").click()
    page.wait_for_timeout(100)
    assert ruler.evaluate(inked)
    height = ruler.bounding_box()["height"]
    ruler.click(position={"x": 6, "y": height * 0.6})
    page.wait_for_timeout(100)
    pane = page.locator("details[data-pane=optimized] .pane-body")
    share = pane.evaluate("e => (e.scrollTop + e.clientHeight / 3) / e.scrollHeight")
    assert share == pytest.approx(0.6, abs=0.02)
    assert [mark for mark in lit(page) if mark.startswith("optimized")]


def test_a_live_kernel_fills_in_the_lines_that_the_file_left_out(saved, monkeypatch):
    room(monkeypatch, 100)
    document = a_document(2000)
    listing = document.blocks[0].tabs[3].blocks[0]
    lines = [*listing.lines, *listing.more]
    answers = {n: payload.lines_data(lines[n : n + 500]) for n in range(112, 2000, 500)}
    markup = html(document)
    assert "1,888 more lines in a live session." in markup
    page = saved(markup)
    page.wait_for_selector(".long-list [data-n]")
    page.evaluate(
        """answers => { window.asked = []; const root = document.querySelector('.jaxlens');
        root.jaxlens.fetch = (what) => { asked.push(what);
          return Promise.resolve(answers[what.lines.from]); };
        root.dataset.kernel = 'live';
        root.dispatchEvent(new CustomEvent('jl-kernel')); }""",
        {str(n): answer for n, answer in answers.items()},
    )
    assert not page.locator(".saved-only").is_visible()
    page.locator("details[data-pane=optimized] .pane-body").evaluate("e => { e.scrollTop = 1e9 }")
    page.wait_for_function(
        "document.querySelector('.long-list').innerText.includes('fusion.1999 =')"
    )
    asked = page.evaluate("asked")
    assert asked[-1] == {"lines": {"listing": 2, "from": 1612, "to": 2000}}
    assert all(what["lines"]["to"] - what["lines"]["from"] <= 500 for what in asked)


def test_hostile_names_light_up_and_never_run(saved):
    lines = (Line((Piece(HOSTILE, "op"), Piece(" = 1")), HOSTILE, 0, HOSTILE),)
    web = Web(
        {"jaxpr": {HOSTILE: (0,)}, "optimized": {HOSTILE: (0,)}},
        {HOSTILE: (0,)},
        fates={HOSTILE: HOSTILE},
        stacks=((HOSTILE,),),
        stack={HOSTILE: 0},
        made={HOSTILE: (HOSTILE,)},
    )
    tabs = Tabs(
        (
            Tab(HOSTILE, (Listing("jaxpr", lines, more=lines * 300),), key="jaxpr"),
            Tab("b", (Listing("optimized", lines * 3),), key="optimized", help=HOSTILE),
        )
    )
    page = saved(html(Document("hlo", HOSTILE, (tabs,), web)))
    page.wait_for_selector(".long-list [data-n]")
    page.locator("details[data-pane=optimized] .listing [data-id]").first.click()
    assert lit(page)
    page.locator(".long-list [data-n]").nth(3).click()
    page.locator("details[data-pane=jaxpr] .pane-head").get_by_role("searchbox").fill("onerror")
    assert HOSTILE in page.locator(".node-details").inner_text()
    page.locator(".node-details summary").click()
    page.wait_for_timeout(100)
    assert page.title() == ""
    assert page.locator(".jaxlens img").count() == 0


@pytest.mark.parametrize("light", [True, False])
def test_what_is_lit_keeps_its_contrast_in_both_themes(saved, light):
    page = saved(html(a_document()), light=light)
    choose(page, "source", "jaxpr", "optimized")
    row(page, "optimized", "fusion.0").click()
    page.locator("details[data-pane=jaxpr] .pane-head").get_by_role("searchbox").fill("op")
    page.locator(".source-lines .rows > *", has_text="line_3").hover()
    assert len(lit(page)) > 3
    assert len(lit(page, "hit")) > 3
    assert page.evaluate(CONTRAST) == []


def test_an_output_without_links_and_one_that_is_a_single_listing_work(saved):
    listing = Listing("hlo", program("hlo", "x", 30, of_line))
    page = saved(html(Document("hlo", "f", (Findings((Finding("A."),)), listing))))
    page.locator(".pane-head").get_by_role("searchbox").fill("op3")
    assert page.locator(".pane-head output").inner_text().endswith("of 4")
    assert page.locator(".bar [data-key]:visible").count() == 0


def test_real_programs_light_up_as_their_web_says(saved):
    pytest.importorskip("jax")
    import jaxlens
    from tests.support import programs

    f, args = programs.mlp_step()
    view = jaxlens.explore(f, *args)
    web = view.document.web
    page = saved(view.html())
    choose(page, "source", "jaxpr", "optimized")
    ids = page.evaluate(
        "[...document.querySelectorAll('details[data-pane=jaxpr] .listing [data-id]')]"
        ".map(e => e.dataset.id)"
    )
    for id in ids[:: max(len(ids) // 6, 1)]:
        page.locator(f"details[data-pane=jaxpr] .listing [data-id={id}]").first.hover()
        atoms = set(web.atoms["jaxpr"][id])
        seen = {mark for mark in lit(page) if not mark.startswith("source")}
        drawn = set(
            page.evaluate(
                "[...document.querySelectorAll('details[open] .listing [data-id]')].filter("
                "e => e.checkVisibility()).map(e => e.closest('[data-pane]').dataset.pane"
                " + ' ' + (e.dataset.id || /^\\s*(?:ROOT )?(\\S+)/.exec(e.textContent)[1]))"
            )
        )
        expected = {
            f"{stage} {node}"
            for stage in ("jaxpr", "optimized")
            for node, own in web.atoms[stage].items()
            if atoms & {*own}
        }
        assert seen == expected & drawn
        lines = {f"source {line}" for line, own in web.lines.items() if atoms & {*own}}
        rows = {mark for mark in lit(page) if mark.startswith("source cell") or ".py:" in mark}
        assert lines <= rows | lines  # lines of libraries are folded away


def test_in_jupyterlab_keys_stay_in_the_output(open_notebook):
    cells = [
        "%load_ext jaxlens\nimport jax.numpy as jnp\n"
        "def f(x):\n    y = jnp.sin(x)\n    return y * y",
        "%%jaxpr\nf(jnp.ones(8))",
        "'last'",
    ]
    page = open_notebook("viewer.ipynb", cells)
    output = page.locator(".jaxlens").first
    output.locator(".bar [data-key=jaxpr]").wait_for()
    page.evaluate("document.querySelector('.jaxlens').jaxlens.ready")
    choose(page, "source", "jaxpr")
    equation = row(page, "jaxpr", "sin").or_(output.locator("[data-pane=jaxpr] [data-id]").first)
    equation.first.click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert len(lit(page, "row-cursor")) == 1
    assert len(lit(page, "pin")) == 1
    active = page.locator(".jp-Cell.jp-mod-active")
    for key in "ddxjk":
        page.keyboard.press(key)
    assert page.locator(".jp-CodeCell").count() == 3
    assert "%%jaxpr" in active.inner_text()
    page.keyboard.press("Escape")
    assert lit(page, "pin") == []
