"""The graph pane in a real browser: choosing, opening, walking, and links to it."""

from dataclasses import replace

import pytest

from jaxlens.ir.hlo.reader import read
from jaxlens.program.counted import EquationSums
from jaxlens.render.document import Document, GraphPane, Tab, Tabs
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.render.html.document_html import html
from jaxlens.render.link_data import Web
from jaxlens.report import amount
from jaxlens.views.figures.hlo import figure as hlo_figure
from jaxlens.views.figures.jaxpr import figure
from tests.support.browsing import PAGE
from tests.support.drawn_modules import branching, layers, predict
from tests.views.figures.test_hlo_figure import LOOP

HOSTILE = "</script><img src=x onerror=window.pwned=1>"

# Three atoms in two lines; `e3` is a call, of which `e4` is the body.
WEB = Web(
    {"jaxpr": {"e0": (0,), "e2": (1,), "e3": (1, 2), "e4": (2,)}},
    {"cell 1:1": (0,), "cell 1:2": (1,), "cell 1:3": (2,)},
    {"cell 1:1": (1,)},
)
SAID = """() => {
  window.said = [];
  for (const type of ["jl-point", "jl-pin"])
    document.querySelector(".jaxlens").addEventListener(type, (e) => said.push([type, e.detail]));
}"""
TELL = """([type, detail]) => document.querySelector(".jaxlens").dispatchEvent(
  new CustomEvent(type, { detail }))"""


@pytest.fixture
def show(new_page):
    """`show(figure) -> page`: a page with one live drawing."""

    def show_(drawn, web=WEB, width=1100):
        page = new_page(width)
        pane = GraphPane(drawn, "A drawing.")
        tabs = Tabs((Tab("Graph", (pane,), key="graph"),))
        document = Document("jaxpr", "f(x)", (tabs,), web)
        page.set_content(PAGE.format("true", html(document)))
        page.wait_for_selector(".jaxlens-drawing svg")
        page.wait_for_function("document.querySelector('.jaxlens').jaxlens?.web")
        page.evaluate(SAID)
        return page

    return show_


def box(page, node):
    return page.locator(f'.jaxlens-drawing [data-node="{node}"]')


def marked(page, name):
    return sorted(
        page.locator(f".graph-box.{name}").evaluate_all("all => all.map(e => e.dataset.node)")
    )


def said(page, kind):
    return [detail for told, detail in page.evaluate("window.said") if told == kind]


def focused(page):
    return page.evaluate("document.activeElement.dataset.node")


def point(page, line, kind="jl-point"):
    """As another pane does when a line is pointed at; `wait` for the frame that lights it."""
    page.evaluate(TELL, [kind, {"line": line} if line else None])
    page.evaluate("() => new Promise(requestAnimationFrame)")


def reveal(page, stage, node):
    page.evaluate(TELL, ["jl-reveal", {"stage": stage, "id": node}])


def test_a_click_pins_and_opens_nothing_and_pointing_says_what_at(show):
    page = show(figure(predict()))
    box(page, "e3").click()
    assert said(page, "jl-pin") == [{"stage": "jaxpr", "id": "e3"}]
    assert box(page, "e3").get_attribute("aria-expanded") == "false"
    assert focused(page) == "e3"
    assert marked(page, "pin") == ["e3"]
    assert box(page, "e3").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert said(page, "jl-pin")[-1] is None
    assert marked(page, "pin") == []
    box(page, "e2").hover()
    assert said(page, "jl-point")[-1] == {"stage": "jaxpr", "id": "e2"}
    page.mouse.move(5, 5)
    assert said(page, "jl-point")[-1] is None


@pytest.mark.parametrize("act", ["door", "double click", "Enter"])
def test_the_marker_a_double_click_and_enter_open(show, act):
    page = show(figure(predict()))
    closed = box(page, "e3")

    def do():
        if act == "door":
            closed.locator(":scope > .door").click()
        elif act == "double click":
            closed.locator(":scope > .shape").dblclick(position={"x": 60, "y": 6})
        else:
            closed.focus()
            page.keyboard.press("Enter")

    do()
    assert closed.get_attribute("aria-expanded") == "true"
    assert box(page, "e4").count() == 1
    do()
    assert closed.get_attribute("aria-expanded") == "false"
    assert box(page, "e4").count() == 0


def test_what_other_panes_point_at_lights_up(show):
    page = show(figure(predict()))
    point(page, "cell 1:2")
    assert marked(page, "lit") == ["e2", "e3"]
    point(page, "cell 1:1")
    assert marked(page, "lit") == ["e0"]
    assert marked(page, "via") == ["e2", "e3"]
    point(page, "")
    assert marked(page, "lit") == marked(page, "via") == []
    box(page, "e3").locator(":scope > .door").click()
    box(page, "e4").hover()  # a box lights its kin
    page.wait_for_selector("[data-node=e4].lit")
    assert marked(page, "lit") == ["e3", "e4"]


def test_a_shut_box_tells_how_much_of_what_is_lit_it_holds(show):
    page = show(figure(predict()))
    point(page, "cell 1:3", "jl-pin")
    assert marked(page, "holds") == ["e3"]
    assert box(page, "e3").locator(".node-count").text_content() == "1"
    box(page, "e3").locator(":scope > .door").click()
    page.mouse.move(5, 5)
    box(page, "e3").blur()
    page.wait_for_selector("[data-node=e4].lit")
    assert marked(page, "lit") == ["e3", "e4"]
    assert marked(page, "holds") == []
    assert page.locator(".node-count").count() == 0


def test_reveal_opens_what_must_be_open(show):
    page = show(figure(branching()))
    assert box(page, "e21").count() == 0
    reveal(page, "optimized", "e21")
    assert box(page, "e21").count() == 0  # another stage's
    reveal(page, "jaxpr", "e21")
    assert box(page, "e21").count() == 1
    inside = """e => { const [a, b] = [e, e.closest('.view')].map((x) => x.getBoundingClientRect());
      return a.top >= b.top && a.bottom <= b.bottom && a.left >= b.left && a.right <= b.right; }"""
    assert box(page, "e21").evaluate(inside)


def test_what_is_pinned_elsewhere_comes_into_view(show):
    web = Web({"jaxpr": {"e27": (7,)}}, {"cell 1:5": (7,)})
    page = show(figure(layers(4), max_boxes=60), web, width=600)
    view = page.locator(".jaxlens-drawing .view")
    assert view.evaluate("e => e.scrollTop") == 0
    point(page, "cell 1:5", "jl-pin")
    page.wait_for_function("document.querySelector('.view').scrollTop > 100")
    assert page.locator("svg.dim").count() == 1


def test_a_chosen_box_shows_its_edges(show):
    page = show(figure(predict()))
    box(page, "e2").click()
    ends = page.locator(".edge.on").evaluate_all(
        "all => all.map(e => [e.dataset.tail, e.dataset.head])"
    )
    path = box(page, "e2").get_attribute("data-path")
    assert len(ends) == 3
    assert all(path in pair for pair in ends)


def test_arrows_walk_along_the_edges_into_and_out_of_open_boxes(show):
    page = show(figure(predict(), depth=2))
    box(page, "e0").focus()
    walked = []
    for key in ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"]:
        page.keyboard.press(key)
        walked.append(focused(page))
    assert walked == ["e2", "e3", "relu in d", "e4", "relu out 0", "main out 0"]
    for node in ["e3", "e2"]:
        page.keyboard.press("ArrowUp")
        assert focused(page) == node
    page.keyboard.press("Space")
    assert said(page, "jl-pin")[-1] == {"stage": "jaxpr", "id": "e2"}
    page.keyboard.press("ArrowUp")
    first = focused(page)
    page.keyboard.press("ArrowRight")
    assert focused(page) != first
    assert page.locator("[data-path][tabindex='0']").count() == 1


def test_fit_zoom_and_pan(show):
    page = show(figure(layers(6), max_boxes=60), width=700)
    drawing = page.locator(".jaxlens-figure")
    width = "e => e.getBoundingClientRect().width"
    height = "e => e.getBoundingClientRect().height"
    assert drawing.evaluate(height) > 900
    box(page, "e0").focus()
    page.keyboard.press("f")
    assert drawing.evaluate(height) <= 0.75 * 900 + 1
    fitted = drawing.evaluate(width)
    page.keyboard.press("+")
    assert drawing.evaluate(width) == pytest.approx(1.25 * fitted, rel=0.01)
    page.keyboard.press("-")
    assert drawing.evaluate(width) == pytest.approx(fitted, rel=0.01)
    page.keyboard.press("1")
    view = page.locator(".jaxlens-drawing .view")
    view.evaluate("e => e.scrollTo(0, 0)")
    page.keyboard.press("Shift+ArrowDown")
    assert view.evaluate("e => e.scrollTop") == 80
    room = view.bounding_box()
    page.mouse.move(room["x"] + 5, room["y"] + 300)
    page.mouse.down()
    page.mouse.move(room["x"] + 5, room["y"] + 200, steps=3)
    page.mouse.up()
    assert view.evaluate("e => e.scrollTop") == 180
    assert said(page, "jl-pin") == []  # a drag is no click
    before = drawing.evaluate(width)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_function(
        f"w => ({width})(document.querySelector('.jaxlens-figure')) > w", arg=before
    )
    scrolled = "e => e.scrollTop"
    old = view.evaluate(scrolled)
    now = drawing.evaluate(width)
    page.mouse.wheel(0, 50)
    page.wait_for_function(f"t => ({scrolled})(document.querySelector('.view')) !== t", arg=old)
    assert drawing.evaluate(width) == now


def test_the_question_mark_tells_the_keys(show):
    page = show(figure(predict()))
    keys = page.locator(".jaxlens-drawing .keys")
    assert not keys.is_visible()
    box(page, "e0").focus()
    page.keyboard.press("?")
    for word in ("fit", "pin", "open", "Escape"):
        assert word in keys.inner_text()
    page.keyboard.press("Escape")
    assert not keys.is_visible()
    assert not page.locator(".minimap").is_visible()  # a drawing in sight needs no map


def test_fusions_in_a_loop_open_in_place(show):
    atoms = {"tanh.1": (5,), "mul_tanh": (4, 5), "multiply.1": (4,)}
    page = show(
        hlo_figure(read(LOOP, stage="optimized"), depth=1),
        Web({"optimized": atoms}, {"cell 1:2": (5,)}),
    )
    point(page, "cell 1:2")
    assert marked(page, "holds") == ["while.1"]
    assert box(page, "while.1").locator(".node-count").text_content() == "2"
    reveal(page, "optimized", "tanh.1")
    assert marked(page, "lit") == ["mul_tanh", "tanh.1"]
    box(page, "wrapped_add").click()
    assert said(page, "jl-pin")[-1]["id"] == "wrapped_add"
    box(page, "while body 2 in param[0]").click()
    assert said(page, "jl-pin")[-1]["id"] == "param"


def test_a_kernel_opens_what_the_output_left_out(show, monkeypatch):
    from jaxlens.render.graph import figure_json

    drawn = figure(layers(60))
    answers = {name: figure_json.panel_data(drawn, name) for name in drawn.named}
    monkeypatch.setattr(figure_json.graph_data, "__kwdefaults__", {"budget": 2_000, "hues": None})
    page = show(drawn)
    assert (
        "not open in this output" in page.locator(".jaxlens-drawing .drawing-note").text_content()
    )
    assert page.locator(".graph-box[aria-expanded]").count() == 0
    locked, boxes = page.locator(".graph-box.called.locked"), page.locator(".graph-box").count()
    locked.locator(":scope > .door").click()
    point(page, "cell 1:3")  # of which it holds all
    assert locked.locator(":scope > .node-count").text_content() == "2"
    remark = page.locator(".jaxlens-drawing .box-remark")
    assert "opens once the cell is run" in remark.text_content()
    page.keyboard.press("Enter")
    assert page.locator(".graph-box").count() == boxes
    page.evaluate(
        """(answers) => {
          const root = document.querySelector(".jaxlens");
          root.jaxlens.fetch = async (what) => {
            if (what.panel.graph !== 0) throw new Error("another graph");
            return structuredClone(answers[what.panel.name]);
          };
          root.dispatchEvent(new CustomEvent("jl-kernel"));
        }""",
        answers,
    )
    note = page.locator(".jaxlens-drawing .drawing-note").text_content()
    assert note == drawn.note  # every box opens now
    fold = page.locator(".graph-box.called[aria-expanded=false]").first
    path = fold.get_attribute("data-path")
    fold.dblclick()
    page.wait_for_selector(f'[data-path^="{path}."]')
    inner = page.locator(f'[data-path^="{path}."][aria-expanded=false]').first
    deeper = inner.get_attribute("data-path")
    inner.dblclick()
    page.wait_for_selector(f'[data-path^="{deeper}."]')
    page.evaluate(
        "() => { document.querySelector('.jaxlens').jaxlens.fetch = async () => { throw 'gone' } }"
    )
    page.locator(".graph-box.called[aria-expanded=false]").last.dblclick()
    page.wait_for_function(
        "document.querySelector('.jaxlens-drawing .box-remark')?.textContent.includes('gone')"
    )


def test_hues_are_those_of_the_lines_beside_it(show):
    from tests.support import sample_documents as sample

    source = sample.source_pane()
    line = next(row.line for row in source.lines if row.line)
    boxes = (Box("e0", "tanh", line=line), Box("e1", "sin"))
    drawn = Figure((Panel("main", "f", boxes, (Edge("e0", "e1", "f32[8]"),)),))
    document = Document("jaxpr", "f(x)", (source, GraphPane(drawn, "A drawing.")))
    page = show(drawn)
    page.set_content(PAGE.format("true", html(document)))
    bar = page.locator(".jaxlens-drawing .hue-line")
    bar.wait_for(state="attached")
    assert bar.count() == 1
    assert bar.evaluate("e => getComputedStyle(e).fill") not in ("rgba(0, 0, 0, 0)", "none")


def test_hostile_names_are_text(show):
    boxes = (
        Box(HOSTILE, HOSTILE, HOSTILE, "call", HOSTILE, HOSTILE, HOSTILE, (HOSTILE, "a b", "")),
        Box(f"2{HOSTILE}", HOSTILE),
    )
    top = Panel("main", HOSTILE, boxes, (Edge(HOSTILE, f"2{HOSTILE}", HOSTILE),))
    inner = Panel(HOSTILE, HOSTILE, (Box(f'3"{HOSTILE}', HOSTILE),), ())
    page = show(Figure((top, inner), 1, HOSTILE))
    first = page.locator(".graph-box").first
    first.dblclick()
    assert page.locator(".graph-box").count() == 3
    page.keyboard.press("n")
    reveal(page, "jaxpr", f'3"{HOSTILE}')
    page.evaluate(TELL, ["jl-point", {"stage": "jaxpr", "id": HOSTILE}])
    assert page.locator(".jaxlens-drawing :is(img, script)").count() == 0
    assert page.evaluate("window.pwned") is None
    assert HOSTILE[:8] in first.text_content()


WIDTHS = """() => {
  const view = document.querySelector(".jaxlens-drawing .view");
  return [view.querySelector("svg").getBoundingClientRect().width, view.clientWidth];
}"""


TEXT_SIZES = """[...document.querySelectorAll('.jaxlens-figure text')].map(
  (e) => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"""


def test_the_drawing_fits_its_pane_until_the_reader_zooms(show):
    boxes = tuple(Box(f"e{n}", f"an operation of some length {n}") for n in range(6))
    edges = tuple(Edge("x", box.id, "f32[8]") for box in boxes)
    page = show(Figure((Panel("main", "f", (Box("x", "x", kind="input"), *boxes), edges),)))
    natural = page.locator(".jaxlens-figure").evaluate("e => e.viewBox.baseVal.width")
    assert natural > 1000
    for width in (430, int(natural * 0.97), int(natural) + 80, 400):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(f"document.querySelector('.jaxlens').clientWidth < {width}")
        page.wait_for_timeout(200)  # it is drawn in the next frame
        drawn, room = page.evaluate(WIDTHS)
        assert width - 90 < room <= width
        assert drawn == pytest.approx(natural * min(1, max(0.91, room / natural)), abs=2)
        assert min(page.evaluate(TEXT_SIZES)) >= 9
    page.get_by_role("button", name="1:1").click()
    page.set_viewport_size({"width": 700, "height": 800})
    page.wait_for_function(f"({WIDTHS})()[1] > 500")
    assert page.evaluate(WIDTHS)[0] == pytest.approx(natural, abs=1)


def test_a_box_that_opens_is_zoomed_to_and_nothing_is_made_smaller(show):
    page = show(figure(branching()), width=420)
    page.set_viewport_size({"width": 420, "height": 420})
    closed = page.locator(".graph-box[aria-expanded=false]").last
    path = closed.get_attribute("data-path")
    closed.focus()
    page.keyboard.press("f")
    page.keyboard.press("-")
    assert min(page.evaluate(TEXT_SIZES)) < 9
    page.keyboard.press("Enter")
    opened = page.locator(f'[data-path="{path}"]')
    assert opened.get_attribute("aria-expanded") == "true"
    assert min(page.evaluate(TEXT_SIZES)) >= 9
    view, at = (
        part.bounding_box()
        for part in (page.locator(".jaxlens-drawing .view"), opened.locator(":scope > .shape"))
    )
    assert at["y"] >= view["y"]
    assert at["x"] >= view["x"]
    size = page.locator(".jaxlens-figure").bounding_box()["width"]
    page.set_viewport_size({"width": 400, "height": 420})
    page.wait_for_timeout(100)
    assert page.locator(".jaxlens-figure").bounding_box()["width"] == size  # not fitted again
    page.keyboard.press("Enter")
    assert opened.get_attribute("aria-expanded") == "false"


def test_a_map_shows_where_the_view_is_and_goes_where_it_is_pressed(show):
    page = show(figure(layers(12), max_boxes=90), width=700)
    map_ = page.locator(".minimap")
    view = page.locator(".jaxlens-drawing .view")
    frame = map_.locator(".frame")
    boxes = page.locator(".graph-box").count()
    assert boxes >= 60
    assert map_.locator("path:not(.open-boxes)").get_attribute("d").count("M") == boxes
    room, whole = map_.bounding_box(), view.bounding_box()
    assert room["x"] + room["width"] <= whole["x"] + whole["width"]
    assert room["y"] + room["height"] <= whole["y"] + whole["height"]
    assert frame.get_attribute("y") == "0"
    page.mouse.move(room["x"] + room["width"] / 2, room["y"] + room["height"] / 2)
    page.mouse.down()
    middle = view.evaluate("e => (e.scrollTop + e.clientHeight / 2) / e.scrollHeight")
    assert middle == pytest.approx(0.5, abs=0.03)
    page.mouse.move(room["x"] + room["width"] / 2, room["y"] + room["height"] - 1)
    page.mouse.up()
    assert view.evaluate("e => e.scrollTop + e.clientHeight >= e.scrollHeight - 80")
    page.wait_for_function("+document.querySelector('.minimap .frame').getAttribute('y') > 1000")
    assert said(page, "jl-pin") == []
    assert map_.bounding_box()["y"] == pytest.approx(room["y"], abs=1)  # it does not scroll away


def test_edges_of_the_backward_pass_are_dashed_and_a_word_says_so(show):
    made = {"e2": ("transpose", "jvp"), "e3": ("transpose",), "e0": ("jvp",)}
    page = show(figure(predict()), Web(WEB.atoms, WEB.lines, made=made))
    note = page.locator(".jaxlens-drawing .drawing-note")
    note.get_by_text("dashed: the backward pass").wait_for()
    path = {node: box(page, node).get_attribute("data-path") for node in ("e0", "e2", "e3")}
    heads = page.locator(".edge.backward").evaluate_all("all => all.map(e => e.dataset.head)")
    assert set(heads) == {path["e2"], path["e3"]}
    dashes = "e => getComputedStyle(e).strokeDasharray"
    assert page.locator(".edge.backward path").first.evaluate(dashes) == "6px, 3px"
    box(page, "e3").locator(":scope > .door").click()
    assert page.locator(".edge.backward").count() >= len(heads)  # drawn again
    page = show(figure(predict()))
    assert page.locator(".edge.backward").count() == 0


def test_edges_after_the_gradients_are_dotted_and_a_word_says_so(show):
    page = show(replace(figure(predict()), after=("e2", "e3")))
    page.locator(".drawing-note").get_by_text("dotted: after the gradients").wait_for()
    path = {node: box(page, node).get_attribute("data-path") for node in ("e2", "e3")}
    heads = page.locator(".edge.after").evaluate_all("all => all.map(e => e.dataset.head)")
    assert set(heads) == set(path.values())


def test_boxes_are_shaded_by_the_figure_that_is_chosen_and_it_stands_at_them(show):
    drawn = figure(predict(), costs=EquationSums(predict(), {}))
    page = show(drawn)
    choice = page.get_by_label("Shade boxes by")
    choice.focus()
    page.keyboard.press("ArrowDown")
    assert choice.evaluate("e => e.value") == "flops"
    flops = {b.id: b.flops for b in drawn.panels[0].boxes if b.flops}
    most = max(flops, key=flops.get)
    said = amount(flops[most], "flop")
    assert page.locator(".drawing-note").inner_text().endswith(f"shade: flops, the most is {said}")
    for id, number in flops.items():
        words = amount(number, "flop")
        assert box(page, id).locator("title").first.text_content().endswith(f"; {words}")
        assert box(page, id).get_by_text(words, exact=True).count()
    assert page.locator(".shaded").count() == len(flops)
    page.keyboard.press("ArrowUp")
    assert page.locator(".shaded").count() == 0


def test_a_drawing_without_figures_has_no_choice_of_shades(show):
    page = show(figure(predict()))
    assert page.locator(".jaxlens-drawing select").is_hidden()


def test_a_box_at_the_edge_stays_under_the_pointer_that_presses_it(show):
    page = show(figure(layers(60)), width=420)
    page.set_viewport_size({"width": 420, "height": 300})
    page.wait_for_timeout(200)  # it is drawn in the next frame
    page.locator(".graph-box[aria-expanded=false]").last.press("Enter")
    door = page.locator(".graph-box[aria-expanded=false]").last.locator(":scope > .door")
    view = page.locator(".jaxlens-drawing .view")
    at = door.evaluate(
        """e => { const view = e.closest(".view"); const edge = view.getBoundingClientRect().bottom;
          view.scrollTop += e.getBoundingClientRect().bottom - edge - 8;
          const { x, y, width } = e.getBoundingClientRect(); return [x + width / 2, y + 6]; }"""
    )
    before = view.evaluate("e => e.scrollTop")
    assert before > 0
    page.mouse.move(*at)
    page.mouse.down()
    assert view.evaluate("e => e.scrollTop") == before
    page.mouse.up()
    assert page.locator(".graph-box[aria-expanded=true]").count() == 2


def test_letters_typed_in_the_drawing_do_not_reach_the_notebook(show):
    page = show(figure(predict()))
    page.evaluate(
        "() => { window.heard = [];"
        " document.addEventListener('keydown', (e) => heard.push(e.key), true); }"
    )
    box(page, "e0").click()
    for key in ("d", "d", "n", "x", "Control+d", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == ["Control", "d", "Tab"]


def test_everything_that_has_the_focus_says_what_it_is(show):
    page = show(figure(predict(), depth=2))
    named = page.locator(".jaxlens-drawing :is(button, [tabindex], [role])")
    nameless = "all => all.filter((e) => !e.ariaLabel && !e.textContent.trim()).length"
    assert named.evaluate_all(nameless) == 0
    box(page, "e0").focus()
    page.keyboard.press("ArrowDown")
    assert box(page, "e2").get_attribute("aria-description") == "reads 2, read by 1"
    ring = page.evaluate("getComputedStyle(document.activeElement).outline")
    assert "solid" in ring
    assert "0px" not in ring


def test_a_folded_run_tells_it_too_and_stands_for_all_in_it(show):
    web = Web(
        {"jaxpr": {f"e{n}": (n,) for n in range(85)}},
        {f"cell 1:{n}": (n, n + 2) for n in range(80)},
    )
    page = show(figure(layers(12), max_boxes=20), web)
    fold = page.locator(".graph-box.called[aria-expanded]").first
    name = fold.get_attribute("data-node")
    low, high = (int(end[1:].partition("×")[0]) for end in name.split(".."))
    point(page, f"cell 1:{low}")
    assert fold.locator(".node-count").text_content() == "2"
    fold.click()
    assert said(page, "jl-pin")[-1]["id"].split() == [f"e{n}" for n in range(low, high + 1)]
    assert marked(page, "pin") == [name]
