"""Rows that a script writes out say and mark what Python's listing does, whatever names hold."""

from functools import partial
from itertools import count

import pytest

import jaxlens
from jaxlens.program.kernels import works
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Code, Document, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.html import payload
from jaxlens.render.html.assets import _script
from jaxlens.render.html.document_html import html
from jaxlens.render.html.lazy_lines import LazyLines, WrittenLine
from jaxlens.render.html.marks import pieces
from jaxlens.render.html.packing import unpacked, unstepped
from jaxlens.render.html.payload import Budget
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings import machine as machine_lines
from jaxlens.views.listings import stablehlo as stablehlo_lines
from jaxlens.views.listings import stablehlo_words
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
  const start = performance.now();
  box.dispatchEvent(new Event('input', { bubbles: true }));
  return [performance.now() - start, pane.querySelector('output').innerText];
}"""
READ = """([script, name, data]) => {
  const source = new Function(`${script}; return ${name}`)()(data);
  const all = Array.from({length: source.count}, (_, n) => n);
  return { html: all.map(n => source.html(n)), text: all.map(n => source.text(n)),
    id: all.map(n => source.id(n)), owner: all.map(n => source.owner(n)), wide: source.wide };
}"""


@pytest.fixture
def blank(new_page):
    return new_page()


def read(page, lines, saved=False):
    """What the script makes of lines that a kernel sends, or of those of a saved page."""
    script = f"{_script('viewer/rows.js')}\n{_script('listing/row_source.js')}"
    if not saved:
        return page.evaluate(READ, [script, "answeredSource", payload.lines_data(lines)])
    element, left = payload.more_html(lines, Budget(rows=len(lines)))
    assert not left
    text = unstepped(unpacked(element.removesuffix("</script>").partition("data-jl=more>")[2]))
    return page.evaluate(READ, [script, "writtenSource", text])


def checked(page, lines, saved=False):
    found = read(page, lines, saved)
    assert found["html"] == [pieces(line) for line in lines]
    assert found["id"] == [visible(line.id) for line in lines]
    assert found["owner"] == [line.line for line in lines]
    written = ["".join(piece.text for piece in line.pieces) for line in lines]
    indents = ["  " * line.indent for line in lines]
    assert found["text"] == [
        indent + visible(text) for indent, text in zip(indents, written, strict=True)
    ]


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
    root = Line((Piece("ROOT ", "keyword"), Piece("add.1", "name"), Piece(" = f32[]")), "add.1")
    parameter = Line((Piece("p", "name"), Piece(" = ")), "p", 1, "a:1")
    rows = [
        ("}", "", ""),
        ("x", "s9", ""),
        ("y", "s10", "a:1"),
        ("}", "", ""),
        ("z", "s11", "b:2"),
        ("z", "s11", ""),
        ("z", "s011", ""),
        ("z", "s12", ""),
        ("z", "k.9", ""),
        ("z", "k.9", ""),
    ]
    lines = [root, parameter, *(Line((Piece(text),), id, 0, of) for text, id, of in rows)]
    assert payload.lines_data(lines)["ids"] == [1, 1, 0, "s9", 3, 0, 3, 2, "s011", 3, "k.9", 2]
    found = read(blank, lines)
    assert found["id"] == [line.id for line in lines]
    assert found["owner"] == [line.line for line in lines]
    assert found["wide"] == 18


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_the_programs_of_records(blank, path):
    capture = jaxlens.load(path)
    listings = [
        hlo_lines.listing(capture.optimized.module, 0, brief=True),
        hlo_lines.listing(capture.hlo.module, 0, brief=True),
    ]
    listings.append(
        stablehlo_lines.listing(capture.stablehlo.module, capture.stablehlo.text, limit=0)
    )
    listings += [machine_lines.listing(works(capture), stage, head=0) for stage in ("llvm", "asm")]
    for listing in listings:
        if listing.more:
            checked(blank, listing.more)
            checked(blank, listing.more, saved=True)


def test_words_that_only_the_page_marks(blank):
    """Folds in a line, what looks like another kind, signs of HTML, and characters not seen."""
    printed = [
        'func.func public @main(%arg0: tensor<8xf32> {jax.result_info = "a<b"}) -> (i1) {',
        f"%0:9 = stablehlo.while({', '.join(f'%a_{n} = %{n}' for n in range(14))}) : i1",
        f'%1 = stablehlo.custom_call @f(%0) {{config = "}} : {"x&" * 80}"}} : (i1) -> i1',
        "return %0#0 : xtensor<8xf32>, tensor<2xcomplex<f32>>, !stablehlo.token",
        '%2 = "stablehlo.gather"(%0) : dense<1.0>, dense_resource<a>, #do.x, do',
        "stablehlo.return %0 : tensor<f32>\u202e\x07\0",
        "}",
        "",
    ]
    code = [
        "entry: ; preds = %x",
        "  %1 = load <8 x float>, ptr %0, align 32",
        "  tail call void @f(i32 8, [2 x i8] undef, bfloat xptr ptrx)",
        '@c = constant [4 x i8] c"<&;\x01"',
        "]",
    ]
    assembly = [
        "  1f: vaddps ymm0, [rdi]",
        "$L1:\t",
        "\t.param .u64 p0",
        "// <note>",
        "\t@%p1 bra \t$L1;",
    ]
    every = [
        (stablehlo_words.FORM, printed),
        *zip(machine_lines.FORMS.values(), (code, assembly), strict=True),
    ]
    for form, texts in every:
        written = [
            WrittenLine(text, "n", place % 3 * (form is stablehlo_words.FORM))
            for place, text in enumerate(texts)
        ]
        checked(blank, LazyLines(len(written), partial(tuple, written), form=form), saved=True)


def test_100_000_lines_are_searched_while_one_types(saved):
    texts = (f"  {n} = add(v{n * 7919 % 1013})" for n in range(MANY))
    more = tuple(Line((Piece(text),), f"k{n}") for n, text in enumerate(texts))
    listing = Listing("hlo", (Line((Piece("first"),)),), more=more)
    tabs = Tabs((Tab("HLO", (listing,), key="hlo"), Tab("b", (), key="b")))
    page = saved(html(Document("hlo", "f", (tabs,)), extra=["page"]), ready=".long-list [data-n]")
    for words, said in (("= add(v7)", "1 of 99"), (f"{MANY - 1} = ", "1 of 1"), ("x", "0")):
        took, found = page.evaluate(FOUND, words)
        print(f"{words!r} in {MANY:,} lines: {took:.0f} ms")
        assert found == said
        assert took < 1000  # 0.3 s where nothing else runs


def test_all_of_a_kernels_code_is_in_the_page(saved):
    text = "\n".join(f"\tadd <{n}>, &amp;" for n in range(1000))
    kernels = [Tab(stage, (Code(stage, text, title=stage),), key=stage) for stage in ("asm", "ptx")]
    document = Document("compile", "f", (Tabs(tuple(kernels)),))
    page = saved(html(document), ready=".long-list [data-n]")
    page.locator(".pane-body").first.evaluate("e => { e.scrollTop = 1e9 }")
    page.wait_for_selector(".long-list [data-n='999']")
    assert page.locator(".long-list [data-n='999']").text_content() == "\tadd <999>, &amp;"
    assert not page.locator(".static-only").first.is_visible()
