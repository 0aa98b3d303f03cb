"""What the viewer shows is whole and within reach: code, notes and edges, names and the focus."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_viewer import a_document, choose, lit, row, saved  # noqa: F401 (saved is a fixture)

from jaxlens.lenses.report import Cell, Table
from jaxlens.render.document import SourceLine, SourcePane, Tab, TableBlock, Tabs
from jaxlens.render.html import html

CODE = "    hidden = jnp.tanh(x @ weights['first layer'] + bias['first layer'])  # ünïcode, then y"
# Every character of the user's lines: inside its pane, and not where the note of its line is.
HIDDEN = """() => {
  const hidden = [];
  for (const row of document.querySelectorAll(".S .c > * > :first-child")) {
    const pane = row.closest(".pb").getBoundingClientRect();
    const note = row.querySelector("span")?.getBoundingClientRect();
    const at = (node, n) => {
      const range = document.createRange();
      range.setStart(node, n);
      range.setEnd(node, n + 1);
      return range.getBoundingClientRect();
    };
    for (const node of row.childNodes)
      for (let n = 0; node instanceof Text && n < node.data.length; n++) {
        if (!node.data[n].trim()) continue;
        const box = at(node, n);
        const under = note && box.right > note.left + 0.5 && box.bottom > note.top + 1
          && box.top < note.bottom - 1;
        if (!box.width || box.left < pane.left || box.right > pane.right || under)
          hidden.push(node.data[n]);
      }
  }
  return hidden.join("");
}"""
UNNAMED = """() => [...document.querySelectorAll(".jl :is(button, input, [tabindex], [role])")]
  .filter((e) => e.checkVisibility() && !(e.ariaLabel || e.title || e.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 80))"""


def with_long_lines():
    """The document of the viewer's tests, with lines and a table wider than half a window."""
    document = a_document()
    (tabs,) = document.blocks
    source, *others = tabs.tabs
    pane = source.blocks[0]
    lines = tuple(
        SourceLine(line.number, CODE if n % 2 else line.text, line.share, "12%, 37.4 kflop",
                   line.under, line.line)
        for n, line in enumerate(pane.lines)
    )  # fmt: skip
    source = replace(source, blocks=(SourcePane(pane.title, pane.scale, lines),))
    words = Cell("broadcast x 3, add, subtract x 2, multiply, exponential, reduce and more of it")
    name = Cell("fusion.1", ids=("fusion.1",))
    cells = tuple((name, words, words, *([Cell("65.5 kB")] * 5)) for _ in range(30))
    columns = ("kernel", "what", "from", *(f"column {n}" for n in range(5)))
    wide = TableBlock(Table("Wide", columns, cells, right=tuple(range(3, 8)), stage="kernels"))
    tab = Tab("Wide", (wide,), key="wide")
    return replace(document, blocks=(Tabs((source, tab, *others)),))


@pytest.mark.parametrize(
    ("width", "panes"),
    [(1280, ("source", "jaxpr")), (1280, ("source", "jaxpr", "wide")), (760, ("source", "wide")),
     (600, ("source",))],
)  # fmt: skip
def test_no_character_of_the_users_code_is_hidden(saved, width, panes):  # noqa: F811
    page = saved(html(with_long_lines()), width=width)
    choose(page, *panes)
    assert page.locator(".S .c > *").count() == 6
    assert page.evaluate(HIDDEN) == ""


def test_nothing_lies_under_the_ruler_or_touches_it(saved):  # noqa: F811
    page = saved(html(with_long_lines()))
    choose(page, "source", "wide", "jaxpr")
    edges = page.evaluate(
        "[...document.querySelectorAll('.pw')].filter(e => e.checkVisibility()).map(e =>"
        " [e.querySelector('.pb').getBoundingClientRect().right,"
        "  e.querySelector('.pr').getBoundingClientRect().left])"
    )
    assert len(edges) == 3
    assert all(pane <= ruler + 0.5 for pane, ruler in edges)
    notes = page.evaluate(
        "[...document.querySelectorAll('.S span')].map(e => e.closest('.pb')"
        ".getBoundingClientRect().right - e.getBoundingClientRect().right)"
    )
    assert notes
    assert min(notes) >= 4


def test_a_pane_says_that_it_goes_on_and_keeps_the_names_of_rows(saved):  # noqa: F811
    page = saved(html(with_long_lines()))
    choose(page, "source", "wide")
    frame = page.locator("details[data-pane=wide] .pw")
    assert "more" in frame.get_attribute("class").split()
    name = page.locator("details[data-pane=wide] tbody td").first
    before = name.bounding_box()["x"]
    page.locator("details[data-pane=wide] .pb").evaluate("e => { e.scrollLeft = e.scrollWidth }")
    page.wait_for_function(
        "!document.querySelector('details[data-pane=wide] .pw').classList.contains('more')"
    )
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1)


@pytest.mark.parametrize(
    ("width", "keys"),
    [(700, ["source"]), (1200, ["source", "optimized"]), (1800, ["source", "jaxpr", "optimized"])],
)
def test_a_wide_window_is_used(saved, width, keys):  # noqa: F811
    page = saved(html(replace(a_document(), verb="explore")), width=width)
    shown = page.locator(".bar [aria-pressed=true]")
    assert shown.evaluate_all("all => all.map(e => e.dataset.key)") == keys


def test_a_line_says_what_became_of_its_equations(saved):  # noqa: F811
    page = saved(html(a_document()))
    choose(page, "source", "jaxpr")
    page.locator(".S [data-line='cell 3:4'] > summary").hover()
    lit(page)
    assert "owns 6 ops; of 6 equations: 6 fused into 1 kernel." in page.locator(".ab").inner_text()


def test_all_controls_have_names_and_the_focus_goes_through_them_in_order(saved):  # noqa: F811
    page = saved(html(with_long_lines()))
    choose(page, "source", "jaxpr", "wide")
    row(page, "jaxpr", "e1").click()
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("[...document.querySelectorAll('.jl *')].every(e => e.tabIndex <= 0)")
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    order = []
    for _ in range(80):
        page.keyboard.press("Tab")
        place, ring = page.evaluate(
            "(() => { const e = document.activeElement, style = getComputedStyle(e);"
            " return [[...document.querySelectorAll('.jl *')].indexOf(e), style.outlineStyle] })()"
        )
        if place < 0:
            break
        assert ring != "none"
        order.append(place)
    assert order == sorted(order)
    assert len(order) > 12
