"""The assets of an output: small, self-contained, once per page."""

import re
import shutil
import subprocess
from typing import get_args

import pytest
import sample_documents as sample

from jaxlens.render import page
from jaxlens.render.document import Document, Tab, Tabs
from jaxlens.render.html import html

# A document with just what the installer and lens.js touch.
DOM = """
class Element {
  constructor(tag, attrs = {}) { Object.assign(this, { tag, attrs, children: [], open: false }); }
  get id() { return this.attrs.id; }
  set id(value) { this.attrs.id = value; globalThis[value] ??= this; }  // as browsers do
  setAttribute(name, value) { this.attrs[name] = value; }
  hasAttribute(name) { return name in this.attrs; }
  append(child) { child.remove(); child.parent = this; this.children.push(child); }
  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((c) => c !== this);
    this.parent = undefined;
  }
  *all() { for (const child of this.children) { yield child; yield* child.all(); } }
}
globalThis.Element = Element;
globalThis.HTMLElement = Element;
globalThis.HTMLDetailsElement = class extends Element {};
globalThis.window = globalThis;
const root = new Element("html"), head = new Element("head"), body = new Element("body");
root.append(head); root.append(body);
const listeners = [];
globalThis.document = {
  head, body,
  getElementById: (id) => [...root.all()].find((e) => e.id === id) ?? null,
  addEventListener: (type, run, { signal }) => listeners.push({ type, signal }),
  querySelectorAll: (selector) => [...root.all()].filter((e) =>
    selector.startsWith("style") ? e.tag === "style"
    : selector.includes(".T:not") ? e.tag === "tabs" && !e.hasAttribute("data-live") : false),
};
function output() {
  const cell = new Element("div"), tabs = new Element("tabs");
  cell.append(new Element("style"));
  for (const open of [true, false]) {
    const pane = new HTMLDetailsElement("details", { name: "same" });
    pane.open = open && !body.children.length;  // the page shuts equal names of later outputs
    tabs.append(pane);
  }
  cell.append(tabs);
  body.append(cell);
  return { cell, tabs };
}
const styles = () => [...root.all()].filter((e) => e.tag === "style");
"""


def run(script):
    node = shutil.which("node")
    if not node:
        pytest.skip("needs node to run the installer")
    return subprocess.run([node, "-e", script], capture_output=True, text=True, check=False)


def source(kit="lens"):
    return re.fullmatch(r"<script>(.*)</script>", page.scripts([kit]), re.DOTALL)[1]


KITS = get_args(page.Kit)


@pytest.mark.parametrize(("kit", "most"), [("lens", 8_000), ("graph", 24_000)])
def test_assets_are_small(kit, most):
    assert len(page.styles([kit])) + len(page.scripts([kit])) < most


def test_only_outputs_with_a_drawing_carry_what_draws():
    assert "jaxlens-graph" not in html(sample.everything())


def test_an_output_carries_its_assets():
    markup = html(sample.everything())
    assert markup.startswith("<style data-jl=")
    assert markup.endswith("</script>")


def test_nothing_is_fetched():
    assert not re.search(r"https?://|@import|url\(", page.styles(KITS))
    assert not re.search(r"\bfetch\(|\bimport\b|XMLHttpRequest|WebSocket", page.scripts(KITS))


@pytest.mark.parametrize("kit", KITS)
def test_scripts_cannot_be_ended_early(kit):
    assert "</" not in source(kit)
    assert "</" not in page.styles([kit]).removesuffix("</style>")


@pytest.mark.parametrize("kit", KITS)
def test_styles_touch_nothing_else_on_the_page(kit):
    css = re.fullmatch(r"<style[^>]*>(.*)</style>", page.styles([kit]), re.DOTALL)[1]
    while re.search(r"\{[^{}]*\}", css):
        css = re.sub(r"\{[^{}]*\}", ";", css)
    tops = [top for top in css.split(";") if top]
    assert tops
    assert all(top.startswith((".jl.jl.jl", ".jaxlens-")) for top in tops)


def test_each_kit_has_a_name_that_style_and_script_share():
    names = [re.search(r'data-jl="(\w+)"', page.styles([kit]))[1] for kit in KITS]
    assert len(set(names)) == len(KITS)
    for kit, name in zip(KITS, names, strict=True):
        assert f'("{name}", () => {{' in source(kit)


def test_two_outputs_on_one_page_share_assets_and_not_tabs():
    result = run(
        f"{DOM} const install = {source()!r};"
        """
        const check = (what, told) => { if (!what) throw new Error(told); };
        const first = output(); (0, eval)(install);
        check(styles().length === 1 && styles()[0].parent === head, "style moves to the head");
        const heard = listeners.length;
        const second = output(); (0, eval)(install);
        check(styles().length === 1, "one style");
        check(listeners.length === heard && heard > 0, "listeners once");
        const name = (o) => new Set(o.tabs.children.map((pane) => pane.attrs.name));
        check(name(first).size === 1 && name(second).size === 1, "one name a set");
        check([...name(first)][0] !== [...name(second)][0], "sets differ");
        check(second.tabs.children[0].open, "a set that the page had shut is open again");
        first.cell.remove();
        check(styles().length === 1, "style outlives the first output");
        """
    )
    assert result.returncode == 0, result.stderr


def test_equal_documents_are_equal_texts_on_one_page():
    document = Document("jaxpr", "f", (Tabs((Tab("a", ()), Tab("b", ()))),))
    assert html(document) == html(document)


@pytest.mark.parametrize("kit", KITS)
def test_a_module_loses_export_and_comments_only(kit):
    assert not re.search(r"^export|^ |@param", source(kit), re.MULTILINE)
    assert "root.querySelectorAll" in source(kit)
    assert run(f"new Function({source(kit)!r})").returncode == 0
