"""An unrolled train step as its reader meets it: lines light folds, and folds open.

What should light up and which boxes lead to an equation is asked of Python here; the page shows
the same program, saved without a kernel and live in JupyterLab.
"""

import pytest

import jaxlens
from jaxlens.render.document import GraphPane, Listing, Tabs
from jaxlens.views.links import weave
from tests.support import programs
from tests.support.browsing import wait_for

LAYERS = 6
SIZES = {"width": 16, "length": 8, "vocab": 32, "biases": True}
CELLS = [
    "%load_ext jaxlens\nfrom tests.support import programs\n"
    f"f, args = programs.gpt_step({LAYERS}, **{SIZES})",
    "%%jaxpr\nf(*args)",
]


@pytest.fixture(scope="module")
def capture():
    f, args = programs.gpt_step(LAYERS, **SIZES)
    return jaxlens.capture(f, *args)


@pytest.fixture(scope="module")
def parts(capture):
    """The web, the figure and the listing of the output."""
    view = jaxlens.jaxpr(capture)
    tabs = next(block for block in view.document.blocks if isinstance(block, Tabs))
    blocks = [block for tab in tabs.tabs for block in tab.blocks]
    (pane,) = [block for block in blocks if isinstance(block, GraphPane)]
    (listing,) = [block for block in blocks if isinstance(block, Listing)]
    return weave(capture.links, ("jaxpr",)), pane.figure, listing


@pytest.fixture(scope="module")
def saved(capture, chromium, tmp_path_factory):
    """The output in a file of its own: no kernel."""
    path = tmp_path_factory.mktemp("large") / "step.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{jaxlens.jaxpr(capture).html()}")
    page = chromium.new_page(viewport={"width": 1600, "height": 1000})
    page.goto(path.as_uri())
    yield shown(page)
    page.close()


@pytest.fixture(scope="module")
def live(open_notebook):
    return shown(open_notebook("large.ipynb", CELLS))


def shown(page):
    """The page with all three panes beside each other."""
    page.wait_for_selector(".jaxlens .bar button[data-key=graph]")
    page.evaluate("document.querySelector('.jaxlens').scrollIntoView()")
    for key in ("jaxpr", "graph"):
        button = page.locator(f".bar button[data-key={key}]")
        if button.get_attribute("aria-pressed") != "true":
            button.click(modifiers=["Shift"])
    page.wait_for_selector(".jaxlens-figure .graph-box")
    return page


def box(page, name):
    return page.locator(f'.jaxlens-figure .graph-box[data-node="{name}"]')


def row_of(page, line):
    """The user's line, by its number."""
    number = line.rpartition(":")[2]
    return page.locator(
        f"[data-pane=source] .source-lines .rows > * > :first-child:has(> i:text-is('{number}'))"
    )


def way_to(figure, id):
    """Boxes to open, the outermost first, until the box of a node is seen."""
    named = figure.named
    waiting, seen = [(figure.panels[0].name, ())], set()
    for name, way in waiting:
        for inner in named[name].boxes:
            if inner.id == id:
                return way
            if inner.inside in named and inner.inside not in seen:
                seen.add(inner.inside)
                waiting.append((inner.inside, (*way, inner.id)))
    raise AssertionError(f"no box of {id}")


def members(fold):
    """The equations of a fold."""
    low, high = (int(end[1:]) for end in fold.nodes[0].split("-"))
    return set(range(low, high + 1))


def test_a_line_lights_rows_and_folds(saved, parts):
    web, figure, listing = parts
    folded = [b for b in figure.panels[0].boxes if b.kind == "call"]

    def folds_of(line):
        return {b.id: len(members(b) & set(web.lines[line])) for b in folded}

    # Of the lines whose first equations are in the page, the one with most.
    near = [name for name, atoms in web.lines.items() if atoms[0] < 300]
    line = max(near, key=lambda name: len(web.lines[name]))
    atoms = set(web.lines[line])
    row_of(saved, line).hover()
    wait_for(lambda: saved.locator(".jaxlens-figure .graph-box.holds").count(), "folds to light", 5)
    found = saved.evaluate(
        """() => Object.fromEntries(
          [...document.querySelectorAll('.jaxlens-figure .graph-box.called')].map(box => {
            const count = box.querySelector('.node-count')?.textContent ?? '0';
            return [box.dataset.node, Number(count.replaceAll(',', ''))];
          }))"""
    )
    assert found == folds_of(line)
    assert sum(map(bool, found.values())) > 1
    assert sum(found.values()) > 100
    rows = [line.id for line in (*listing.lines, *listing.more)]
    loaded = saved.locator(".long-list").evaluate(
        "e => Math.round(e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight))"
    )
    assert len(listing.lines) < loaded == len(rows)
    first = next(n for n, id in enumerate(rows) if id and int(id[1:]) in atoms)
    body = saved.locator("details[data-pane=jaxpr] .pane-body")
    body.evaluate("(e, n) => { e.scrollTop = n * 19 }", first)
    saved.wait_for_selector(f'.long-list [data-id="{rows[first]}"].lit')
    lit = saved.locator(".long-list [data-n]").evaluate_all(
        "all => all.map(e => [Number(e.dataset.n), e.classList.contains('lit')])"
    )
    assert len(lit) > 20
    assert all(on == (bool(rows[n]) and int(rows[n][1:]) in atoms) for n, on in lit)


def opened(page, way):
    """Opens boxes one in another."""
    for name in way:
        if box(page, name).first.get_attribute("aria-expanded") == "false":
            box(page, name).first.locator(":scope > .door").click()
        wait_for(
            lambda name=name: box(page, name).first.get_attribute("aria-expanded") == "true",
            name,
            10,
        )


def test_a_saved_output_says_on_the_box_that_it_does_not_open(saved):
    assert saved.locator(".box-remark").count() == 0
    locked = saved.locator(".jaxlens-figure .graph-box.locked").first
    assert locked.get_attribute("aria-expanded") is None
    locked.locator(":scope > .door").click()
    assert (
        "opens once the cell is run" in saved.locator(".jaxlens-figure .box-remark").text_content()
    )
    before = saved.locator(".jaxlens-figure .graph-box").count()
    saved.keyboard.press("Enter")
    assert saved.locator(".jaxlens-figure .graph-box").count() == before


def in_tril(capture):
    """An equation of a function that JAX calls in every layer."""
    region = next(r for name, r in capture.jaxpr.module.regions.items() if name == "tril")
    return next(node.id for node in region.nodes if node.opcode == "iota")


def in_last_layer(capture):
    """An equation that the output has no panel for."""
    return [node.id for node in capture.jaxpr.module.body().nodes if node.opcode == "rsqrt"][-1]


@pytest.mark.parametrize("find", [in_tril, in_last_layer])
def test_a_kernel_opens_every_fold_and_its_equation_is_linked(live, capture, parts, find):
    web, figure, _ = parts
    id = find(capture)
    way = way_to(figure, id)
    assert len(way) >= 2
    opened(live, way)
    inner = box(live, id).first
    inner.click()
    (line,) = [name for name, atoms in web.lines.items() if int(id[1:]) in atoms]
    assert row_of(live, line).evaluate("e => e.className").split() == ["lit"]
    row = live.locator(f'.long-list [data-id="{id}"]').first
    row.wait_for(timeout=10_000)
    assert {"lit", "pin"} <= set(row.evaluate("e => e.className").split())
    pane = live.locator("details[data-pane=jaxpr] .pane-body").bounding_box()
    at = row.bounding_box()
    assert pane["y"] <= at["y"] < pane["y"] + pane["height"]
    live.keyboard.press("Escape")


def test_a_saved_output_opens_a_repeat_and_its_first_copy(saved, parts):
    figure = parts[1]
    repeat = next(b for b in figure.panels[0].boxes if b.label.startswith("_gpt_layer ×"))
    first = next(b for b in figure.named[repeat.inside].boxes if b.kind == "call")
    opened(saved, (repeat.id, first.id))
    inside = {b.id for b in figure.named[first.inside].boxes if b.kind == "call"}
    assert inside
    assert all(box(saved, id).count() == 1 for id in inside)


def test_a_saved_output_holds_every_line(saved, parts, capture):
    """It is found, shown, copied and linked with no kernel to ask."""
    web, _, listing = parts
    lines = [*listing.lines, *listing.more]
    wanted = max(n for n, line in enumerate(lines) if "sqrt" in [p.text for p in line.pieces])
    id = lines[wanted].id
    words = "".join(p.text for p in lines[wanted].pieces)
    saved.mouse.move(1, 1)
    pane = saved.locator("details[data-pane=jaxpr]")
    pane.locator("input[type=search]").fill("sqrt")
    many = sum("sqrt" in "".join(p.text for p in line.pieces) for line in lines)
    count = pane.locator(".pane-head output")
    wait_for(lambda: count.text_content() == f"1 of {many:,}", "all to be found", 10)
    pane.locator("input[type=search]").press("Shift+Enter")
    row = saved.locator(f'.long-list [data-n="{wanted}"]')
    row.wait_for(timeout=10_000)
    assert row.text_content() == "  " * lines[wanted].indent + words
    assert row.get_attribute("data-id") == id
    row.click()
    (line,) = [name for name, atoms in web.lines.items() if int(id[1:]) in atoms]
    assert {"lit", "pin"} <= set(row.evaluate("e => e.className").split())
    assert "lit" in row_of(saved, line).evaluate("e => e.className").split()
    saved.keyboard.press("Escape")
    pane.locator("input[type=search]").fill("")
    assert not saved.locator(".saved-only").count()
    hidden = [e for e in saved.locator(".static-only").all() if e.is_visible()]
    assert not hidden


HELD = """%load_ext jaxlens
import time
from pathlib import Path
from jaxlens.views.view import View
from tests.support import programs
text = View.text
def held(view):
    while not Path("go").exists(): time.sleep(0.05)
    return text(view)
View.text = held
"""


def test_what_a_reader_does_in_the_first_paint_stays(open_notebook, lab):
    go = lab.root / "go"
    setup = HELD + f"f, args = programs.gpt_step({LAYERS}, **{SIZES})"
    page = open_notebook("first.ipynb", [setup, "pass"])
    output, body = page.locator(".jaxlens"), page.locator("details[data-pane=jaxpr] .pane-body")

    def first_paint():
        go.unlink(missing_ok=True)
        page.locator(".jp-CodeCell .cm-content").nth(1).click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text("%%jaxpr\nf(*args)")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("[data-pane=graph]:has-text('being made')", state="attached")
        body.wait_for()
        return output.get_attribute("data-key")

    def complete(first):
        go.touch()
        page.wait_for_selector(f".jaxlens[data-live]:not([data-key={first}])")
        assert output.count() == 1

    first = first_paint()
    before = output.bounding_box()
    complete(first)
    assert output.bounding_box() == before

    first = first_paint()
    row = body.locator("[data-id]").nth(9)
    row.click()
    body.evaluate("e => e.scrollTo(20, 300)")
    page.locator(".bar [data-key=graph]").click(modifiers=["Shift"])
    body.focus()
    pinned = body.locator(".pin").first.get_attribute("data-id")
    complete(first)
    page.locator("details[data-pane=graph] .graph-box").first.wait_for()
    wait_for(lambda: body.locator(".pin").count(), "the pin", 10)
    assert body.locator(".pin").first.get_attribute("data-id") == pinned
    assert body.evaluate("e => [e.scrollLeft, e.scrollTop]") == [20, 300]
    assert body.evaluate("e => e === document.activeElement")
