"""Rows that a script writes out say and mark what Python's listing does, whatever names hold.

Those that a kernel answers with, and those of a jaxpr, which are put together from columns.
"""

import functools
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.program.kernels import works
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Code, Document, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.html import payload
from jaxlens.render.html.assets import _script
from jaxlens.render.html.document_html import html
from jaxlens.render.html.lazy_lines import LazyLines
from jaxlens.render.html.marks import pieces
from jaxlens.views.listings import hlo_brief
from jaxlens.views.listings import machine as machine_lines
from jaxlens.views.listings import stablehlo as stablehlo_lines
from jaxlens.views.listings.jaxpr import LIMIT, equations, listing
from jaxlens.views.listings.jaxpr_rows import rows_text
from tests.support import programs
from tests.support.paths import CAPTURES

HOSTILE = [
    "</script><img src=x onerror=window.pwned=1>",
    "<b>&lt;&amp;",
    "a\nb\0\x01\x07",
    "\ud800",
    "`${alert(1)}`",
    "\u202eevil",
    "$& $1 \\1",
    "",
    " ",
    "a\tb",
    "ROOT",
]
KINDS = ["", "op", "type", "name", "literal", "attr", "comment", "keyword", "fold", "warn"]
MANY = 100_000
FOUND = """words => {
  const pane = document.querySelector('details[data-pane=hlo]');
  const box = pane.querySelector('input[type=search]');
  box.value = words;
  box.dispatchEvent(new Event('input', { bubbles: true }));
  return pane.querySelector('output').innerText;
}"""
READ = """([script, name, data]) => {
  const source = new Function(`${script}; return (data) => ${name}(data)`)()(data);
  const all = Array.from({length: source.count}, (_, n) => n);
  return { html: all.map(n => source.html(n)), text: all.map(n => source.text(n)),
    id: all.map(n => source.id(n)), owner: all.map(n => source.owner(n)), wide: source.wide };
}"""


@pytest.fixture
def blank(new_page):
    return new_page()


class Rows(LazyLines):
    """Rows that are written as given."""

    def __init__(self, rows):
        super().__init__(len(rows), tuple)
        self.rows = rows

    def written(self):
        return iter(self.rows)


FILES = ("viewer/rows.js", "listing/row_source.js", "listing/jaxpr_rows.js")


def read(page, data, reader="answeredSource"):
    """What a script makes of the data of lines."""
    return page.evaluate(READ, ["\n".join(map(_script, FILES)), reader, data])


def checked(page, lines, found=None):
    found = found or read(page, payload.lines_data(lines))
    assert found["html"] == [pieces(line) for line in lines]
    assert found["id"] == [visible(line.id) for line in lines]
    assert found["owner"] == [line.line for line in lines]
    written = ["".join(piece.text for piece in line.pieces) for line in lines]
    indents = ["  " * line.indent for line in lines]
    assert found["text"] == [
        indent + visible(text) for indent, text in zip(indents, written, strict=True)
    ]
    return found


def test_every_kind_and_any_name(blank):
    turn = count()
    lines = [
        Line((Piece(a, KINDS[next(turn) % 10]), Piece(b, KINDS[(next(turn) * 7) % 10])), a, indent)
        for a in HOSTILE
        for b in HOSTILE
        for indent in (0, 2)
    ]
    checked(blank, [*lines, Line(()), Line((Piece("<x>"),), "x", 0, "cell <3>:4")])
    assert blank.title() == ""
    assert blank.evaluate("window.pwned") is None


def test_nodes_that_need_no_name(blank):
    rows = [
        ("ROOT add.1 = f32[]", 1, ""),
        ("  p = ", 1, "a:1"),
        ("}", 0, ""),
        ("x", "s9", ""),
        ("y", "s10", "a:1"),
        ("}", 0, ""),
        ("z", "s11", "b:2"),
        ("z", "s11", ""),
        ("z", "s011", ""),
        ("z", "s12", ""),
        ("z", "k.9", ""),
        ("z", "k.9", ""),
    ]
    lines = Rows(rows)
    assert payload.lines_data(lines)["ids"] == [1, 1, 0, "s9", 3, 0, 3, 2, "s011", 3, "k.9", 2]
    found = read(blank, payload.lines_data(lines))
    assert found["id"] == ["add.1", "p", *(id or "" for _, id, _ in rows[2:])]
    assert found["owner"] == [owner for _, _, owner in rows]
    assert found["wide"] == 18


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_the_programs_of_records(blank, path):
    capture = jaxlens.load(path)
    listings = [
        hlo_brief.listing(capture.optimized.module, 0),
        hlo_brief.listing(capture.hlo.module, 0),
    ]
    listings.append(
        stablehlo_lines.listing(capture.stablehlo.module, capture.stablehlo.text, limit=0)
    )
    listings += [machine_lines.listing(works(capture), stage, head=0) for stage in ("llvm", "asm")]
    for shown in listings:
        if shown.more:
            checked(blank, shown.more)


def test_100_000_lines_are_searched_while_one_types(saved):
    rows = [(f"  {n} = add(v{n * 7919 % 1013})", f"k{n}", "") for n in range(MANY)]
    more = Rows(rows)
    listing = Listing("hlo", (Line((Piece("first"),)),), more=more)
    tabs = Tabs((Tab("HLO", (listing,), key="hlo"), Tab("b", (), key="b")))
    page = saved(html(Document("hlo", "f", (tabs,))), ready=".long-list [data-n]")
    for words, said in (("= add(v7)", "1 of 99"), (f"{MANY - 1} = ", "1 of 1"), ("x", "0")):
        assert page.evaluate(FOUND, words) == said


def test_all_of_a_kernels_code_is_in_the_page(saved):
    text = "\n".join(f"\tadd <{n}>, &amp;" for n in range(1000))
    kernels = [Tab(stage, (Code(stage, text, title=stage),), key=stage) for stage in ("asm", "ptx")]
    document = Document("compile", "f", (Tabs(tuple(kernels)),))
    page = saved(html(document), ready=".long-list [data-n]")
    page.locator(".pane-body").first.evaluate("e => { e.scrollTop = 1e9 }")
    page.wait_for_selector(".long-list [data-n='999']")
    assert page.locator(".long-list [data-n='999']").text_content() == "\tadd <999>, &amp;"
    assert not page.locator(".static-only").first.is_visible()


def nested(x):
    """Loops, branches and calls in each other, a shared one among them."""

    @jax.jit
    def shared(x):
        return jnp.sin(x) * 2 + jax.nn.relu(x)

    def body(carry, _):
        carry = jax.lax.cond(carry.sum() > 0, shared, lambda x: shared(x) - 1.5, carry)
        return jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: shared(c) + 1, carry), carry[0]

    return jax.lax.scan(body, shared(x), None, length=3)


def hostile(x):
    with jax.named_scope("a<b>&amp;</script>"):
        x = x + jnp.float32(-0.0) + np.float32("nan") + 1e-30
    called = jax.named_call(lambda x: x * jnp.arange(3.0), name="".join(HOSTILE[:-2]))
    table = jnp.asarray(np.arange(12.0).reshape(4, 3))
    return called(x) + table[jnp.clip(x.astype(int), 0, 3), 0].sum() if x.ndim == 1 else called(x)


def unread(x, unused):
    values, _ = jax.lax.top_k(x, 2)
    return jnp.sort(values), jax.random.split(jax.random.key(0)), None


def sharing(x):
    """Equal bodies of other names, each used often."""
    one, two = (jax.jit(functools.partial(jnp.multiply, n)) for n in (2.0, 2.0))
    for _ in range(3):
        x = two(one(x)) + one(two(x))
    return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x)


def made():
    yield "nested", nested, (jnp.ones(3),)
    yield "nested, differentiated", jax.grad(lambda x: jax.jit(sharing)(x).sum()), (jnp.ones(3),)
    yield "hostile", hostile, (jnp.ones(3),)
    yield "unread", unread, (jnp.ones(5), jnp.ones(2))
    yield "sharing", sharing, (jnp.ones(2),)
    yield "line", *programs.straight_line(50)
    yield "train step", *programs.gpt_step(2, width=16, length=8, vocab=32, biases=True)


MADE = {name: (f, args) for name, f, args in made()}


def read_columns(page, more):
    """What a script makes of the columns of a listing."""
    return read(page, rows_text(more, len(more)), "new JaxprRows")


@pytest.mark.parametrize("name", MADE)
def test_rows_are_those_of_the_listing(blank, name):
    f, args = MADE[name]
    capture = jaxlens.capture(f, *args)
    module = capture.jaxpr.module
    lines = equations(module, UserNames(module, sources=capture.sources))
    for limit in (0, 7):
        more = listing(module, limit=limit, lines=lines).more
        found = checked(blank, list(more), read_columns(blank, more))
        widest = max(
            2 * line.indent + sum(len(visible(p.text)) for p in line.pieces if p.kind != "fold")
            for line in more
        )
        assert widest <= found["wide"] <= 2 * widest + 80
    assert blank.evaluate("window.pwned") is None


def test_a_large_number_is_a_character_too(blank):
    """Distances beyond 0xD800, which is no character."""
    f, args = programs.straight_line(60_000)
    module = jaxlens.capture(lambda x, y: f(x) + y, *args, args[0]).jaxpr.module
    more = listing(module, limit=LIMIT).more
    found = read_columns(blank, more)
    assert len(found["html"]) == len(more)
    for n in (*range(0, len(more), 5_000), len(more) - 2, len(more) - 1):
        assert found["html"][n] == pieces(more[n])
        assert found["id"][n] == more[n].id
