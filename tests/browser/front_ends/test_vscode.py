"""Saved outputs in a page that imitates what VS Code's notebook shows outputs in.

Imitated, as VS Code 1.100 and 1.139 were seen to do it (code-server, trusted folder, saved
`.ipynb`):
the nesting of elements round an output, absolute and clipped; scripts that are run one by one
after the HTML was written, from copies that are taken out again; the theme as a class of the
body and as `--vscode-*` properties of the root; a window without `parent` and `top`; a listener
on the window that hands every key that reaches it to the workbench; rules for its own tables
and code. No content security policy was seen there.
"""

import pytest

import jaxlens
from jaxlens.render.document import Document, SourceLine, SourcePane, Tab, Tabs
from jaxlens.render.html.document_html import html
from tests.support.browser.front_ends import check, seen
from tests.support.browsing import CONTRAST
from tests.support.paths import RECORDS
from tests.support.viewer_pages import a_document, choose, lit, row

THEMES = {
    "vscode-light": ("#ffffff", "#3b3b3b"),
    "vscode-dark": ("#1f1f1f", "#cccccc"),
    "vscode-high-contrast": ("#000000", "#ffffff"),
    "vscode-high-contrast-light vscode-high-contrast": ("#ffffff", "#292929"),
}
LIGHT = [name for name, (ground, _) in THEMES.items() if ground == "#ffffff"]
SHELL = """<!doctype html><meta charset=utf-8>
<script>delete window.parent; delete window.top; window.heard = [];
addEventListener("keydown", (e) => heard.push(e.key));</script>
<style>body { background: none; font-family: var(--vscode-font-family); margin: 0 }
code { background: #8883; color: #a31515; padding: 1px 3px }
input:focus { outline: 1px solid -webkit-focus-ring-color; outline-offset: -1px }
#container > div > div > div { box-sizing: border-box; margin-left: 50px; overflow-x: auto;
  padding: 8px 0; width: calc(100% - 80px) }
table, th, tr { text-align: right; vertical-align: middle }
thead { background: #8883 } th, td { padding: 4px 8px } tr:nth-child(even) { background: #8882 }
</style>
<body style="overflow:hidden"><div id=container style="position:absolute;width:100%;top:0">"""
# How an output is rendered, and how high the notebook then makes its place.
RENDER = """(markup) => {
  const cell = document.createElement("div");
  cell.style.cssText = "position:absolute;width:100%;top:40px";
  const place = cell.appendChild(document.createElement("div"));
  place.className = "output_container";
  place.style.cssText = "position:absolute;overflow:hidden;width:100%";
  const output = place.appendChild(document.createElement("div"));
  output.className = "output remove-padding";
  output.style.cssText = "position:absolute;top:0;left:0";
  const held = output.appendChild(document.createElement("div"));
  held.tabIndex = 0;
  document.getElementById("container").replaceChildren(cell);
  held.innerHTML = markup;
  for (const script of [...held.getElementsByTagName("script")]) {
    const copy = document.createElement("script");
    copy.text = script.innerText;
    if (script.type) copy.setAttribute("type", script.type);
    held.appendChild(copy).remove();
  }
  new ResizeObserver(() => {
    place.style.height = place.style.maxHeight = `${output.offsetHeight}px`;
  }).observe(output);
}"""
THEME = """([kind, ground, ink]) => {
  document.body.className = kind;
  document.body.dataset.vscodeThemeKind = kind.split(" ")[0];
  const { style } = document.documentElement;
  style.setProperty("--vscode-editor-background", ground);
  style.setProperty("--vscode-editor-foreground", ink);
  style.setProperty("--vscode-font-family", "system-ui, sans-serif");
  style.setProperty("--vscode-editor-font-family", "'Droid Sans Mono', monospace");
}"""
STROKES = """() => {
  const [canvas] = [...document.querySelectorAll(".ruler")].filter((e) => e.checkVisibility());
  const seen = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = new Set();
  for (let n = 0; n < seen.length; n += 4)
    if (seen[n + 3] === 255) found.add([...seen.slice(n, n + 3)].join());
  return [...found];
}"""


@pytest.fixture
def webview(new_page):
    """`webview(markup, kind) -> page`: an output in a theme, where the machine prefers another."""

    def webview_(markup, kind="vscode-dark", width=900):
        other = "dark" if kind in LIGHT else "light"
        page = new_page(width, 1000, color_scheme=other)
        page.set_content(SHELL)
        page.evaluate(THEME, [kind, *THEMES[kind]])
        rendered(page, markup)
        return page

    return webview_


def rendered(page, markup):
    page.evaluate(RENDER, markup)
    page.wait_for_selector(".jaxlens .bar", state="attached")
    page.evaluate("document.querySelector('.jaxlens').jaxlens.ready.then(() => null)")


def test_what_works(webview):
    view = jaxlens.jaxpr(jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens"))
    found = seen(webview(view.html()).locator(".jaxlens"))
    check("VS Code", "1", found, "imitated: the frame of a trusted folder, as seen in 1.139")


@pytest.mark.parametrize("kind", THEMES)
def test_the_theme_is_the_notebooks_and_text_reads_in_it(webview, kind):
    page = webview(html(a_document()), kind)
    choose(page, "source", "jaxpr")
    scheme, ground = page.evaluate(
        "(({colorScheme, backgroundColor}) => [colorScheme, backgroundColor])"
        "(getComputedStyle(document.querySelector('.jaxlens')))"
    )
    assert scheme == ("light" if kind in LIGHT else "dark")
    assert ground == "rgb({}, {}, {})".format(*bytes.fromhex(THEMES[kind][0][1:]))
    row(page, "jaxpr", "e1").click()
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [500, 900, 1500])
def test_an_output_lives_fits_and_lights_up_also_when_it_is_rendered_again(webview, width):
    markup = html(a_document())
    page = webview(markup, width=width)
    for again in (False, True):
        if again:
            rendered(page, markup)
        choose(page, "jaxpr")
        row(page, "jaxpr", "e1").hover()
        assert "jaxpr e1" in lit(page)
        place = page.locator(".output_container").bounding_box()
        output = page.locator(".jaxlens").bounding_box()
        assert output["x"] + output["width"] <= place["width"]
        page.wait_for_function(
            "document.querySelector('.output_container').clientHeight"
            " >= document.querySelector('.jaxlens').offsetHeight"
        )
        assert page.evaluate("document.querySelector('.output').scrollWidth") <= place["width"]


def test_keys_move_in_the_output_and_none_reaches_the_workbench(webview):
    page = webview(html(a_document()))
    choose(page, "source", "jaxpr")
    page.locator("[data-pane=jaxpr] .pane-body").focus()
    for key in ("j", "j", "Enter", "d", "d", "a", "b", "m", "z"):
        page.keyboard.press(key)
    assert lit(page, "pin") == ["jaxpr e1"]
    page.keyboard.press("Escape")
    assert lit(page, "pin") == []
    assert page.evaluate("heard") == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+s")
    assert page.evaluate("heard") == ["Escape", "Control", "s"]


def test_strokes_of_the_ruler_follow_the_theme(webview):
    page = webview(html(a_document(long=400)))
    choose(page, "optimized")
    row(page, "optimized", "fusion.1").click()
    lit(page)
    before = page.evaluate(STROKES)
    page.evaluate(THEME, ["vscode-light", *THEMES["vscode-light"]])
    page.wait_for_function(
        f"(was) => !({STROKES})().some((color) => was.includes(color))", arg=before
    )
    assert before
    assert page.evaluate(STROKES)


def test_the_table_of_keys_is_not_cut_off_below_a_small_output(webview):
    line = SourceLine(1, "y = x + 1", 1.0, "1 eqn", (), "cell 3:1")
    pane = SourcePane("cell 3", "", (line,))
    tabs = Tabs((Tab("Your code", (pane,), key="source"), Tab("Other", (pane,), key="other")))
    page = webview(html(Document("jaxpr", "f(x)", (tabs,))))
    page.get_by_role("button", name="Keys").click()
    shown = "document.querySelector('.key-help').getBoundingClientRect()"
    cut = "document.querySelector('.output_container').getBoundingClientRect()"
    assert page.evaluate(f"{shown}.height") > 200
    page.wait_for_function(f"{shown}.bottom <= {cut}.bottom")
