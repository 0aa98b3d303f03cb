"""Outputs where others host a notebook: imitations of what they do to the HTML.

- Colab shows each output in a sandboxed frame of another origin, and runs its scripts; the frame is
  made as high as its content, and a dark theme is `<html theme=dark>`.
- GitHub drops scripts, styles and every attribute of style, class, id and data from a notebook's
  HTML, and keeps pictures at `data:` addresses (seen in karolzak/ipyplot#3, jupyter/nbviewer#450
  and atoti/notebooks#425); of elements and attributes it keeps those that its HTML pipeline
  publishes.
- Quarto writes an output as a raw block of HTML, which Pandoc passes on as it is, into a page with
  Bootstrap's rules for tables and code. `body.quarto-dark` says that the dark theme is on.
"""

import pytest

import jaxlens
from tests.support.browser.front_ends import check, seen
from tests.support.html_checks import Balance, Filtered
from tests.support.paths import RECORDS

SCHEME = "getComputedStyle(document.querySelector('.jaxlens')).colorScheme"
# Attributes that GitHub's HTML pipeline keeps, as far as outputs could have them.
ATTRIBUTES = {
    *("align alt aria-label colspan height href lang name open role rowspan scope src".split()),
    *("start summary tabindex title type valign width".split()),
}


class Github(Filtered):
    """The markup that GitHub shows of an output."""

    tags = frozenset(
        "h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p ol ul li table "
        "thead tbody tfoot tr td th blockquote kbd q samp var hr s strike summary details caption "
        "figure figcaption abbr mark small span".split()
    )
    gone = Filtered.gone | {"template"}

    def kept(self, tag, attrs):
        return ((name, value or "") for name, value in attrs if name in ATTRIBUTES)


@pytest.fixture(scope="module")
def output():
    return jaxlens.jaxpr(jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens")).html()


@pytest.fixture
def shown(new_page):
    """`shown(markup) -> page`: a page of this."""

    def shown_(markup):
        page = new_page(1100, 1000)
        page.set_content(markup)
        return page

    return shown_


def test_github(shown, output):
    markup = Github(output).markup
    assert {name for _, name, _ in Balance(markup).attrs} <= ATTRIBUTES
    found = seen(shown(f"<!doctype html><body>{markup}").locator("body"))
    check("GitHub", "-", found, "imitated: what its notebook viewer keeps of the HTML")


QUARTO = """<!doctype html><html><head><meta charset=utf-8><style>
* { box-sizing: border-box } body { font: 17px/1.5 sans-serif; margin: 0 }
table { border-collapse: collapse; caption-side: top; width: 100%; margin-bottom: 1rem }
td, th { padding: .5rem; border-bottom: 1px solid #dee2e6 } pre { margin: 0 0 1rem; padding: .4em }
code { color: #7d12ba; background: #f8f9fa } summary { display: list-item }
.content { max-width: 900px; margin: 0 auto } .cell-output-display { overflow-x: auto }
</style></head><body class="quarto-light"><main class="content"><div class="cell">
<div class="cell-output cell-output-display">OUTPUT</div></div></main></body></html>"""


@pytest.mark.parametrize(("theme", "machine"), [("light", "dark"), ("dark", "light")])
def test_quarto(shown, output, theme, machine):
    """Its page says by a class which of its themes is on, whatever the machine prefers."""
    page = shown(QUARTO.replace("OUTPUT", output).replace("quarto-light", f"quarto-{theme}"))
    page.emulate_media(color_scheme=machine)
    page.wait_for_selector(".jaxlens .bar")
    assert page.evaluate(SCHEME) == theme
    found = seen(page.locator(".jaxlens"))
    check("Quarto", "1", found, "imitated: its page round the raw HTML; not with Quarto itself")


FRAME = """<!doctype html><html theme=THEME><meta charset=utf-8><body><div id=output-area></div>
<script>addEventListener("message", ({data}) => {
  const area = document.getElementById("output-area");
  area.append(document.createRange().createContextualFragment(data));
  const tell = () => parent.postMessage(document.documentElement.offsetHeight, "*");
  new ResizeObserver(tell).observe(area);
})</script>"""
NOTEBOOK = """<!doctype html><meta charset=utf-8><body><iframe style="width:100%;border:0"
sandbox="allow-downloads allow-forms allow-pointer-lock allow-popups allow-scripts SAME"
src="ADDRESS"></iframe><script>
addEventListener("message", ({data}) => {
  document.querySelector("iframe").style.height = `${data}px`;
})</script>"""


@pytest.mark.parametrize("same", ["allow-same-origin", ""])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colab(chromium, served, output, theme, same):
    """With an origin of its own, as Colab's frames have, and without storage, which is stricter."""
    address = served(FRAME.replace("THEME", theme))
    page = chromium.new_page(viewport={"width": 1000, "height": 1000})
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(served(NOTEBOOK.replace("ADDRESS", address).replace("SAME", same)))
    frame = page.frame(url=address)
    frame.wait_for_selector("#output-area", state="attached")
    page.evaluate(
        "text => document.querySelector('iframe').contentWindow.postMessage(text, '*')", output
    )
    frame.wait_for_selector(".jaxlens .bar")
    assert frame.evaluate(SCHEME) == theme
    found = seen(frame.locator(".jaxlens"))
    height = frame.evaluate("document.documentElement.offsetHeight")
    assert abs(page.locator("iframe").bounding_box()["height"] - height) < 60
    page.close()
    assert not wrong
    check("Colab", "-", found, "imitated: a sandboxed frame of another origin")
