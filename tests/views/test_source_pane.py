"""The user's lines: which are shown, what they say, and how other numbers tint them."""

from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module, Node, Region, Span
from jaxlens.render.document import Document, Line, Piece
from jaxlens.render.text.document_text import text
from jaxlens.report import Overlay
from jaxlens.views.source_pane import blocks, extents
from tests.support.documents import approved

TEXT = """\
import jax


def unused(x):
    return x


@jax.jit
def f(x):
    y = x + 1

    return y * 2


def g(x):
    return f(x)
"""


def at(line, library=False, file="m.py"):
    return Span(file, line, line, key=f"/{file}", library=library)


def program(*nodes):
    return Module("m", "jaxpr", "main", {"main": Region("main", (), nodes, (), "jaxpr")})


def test_only_the_functions_involved_are_shown():
    assert extents(TEXT, [10]) == [8, 9, 10, 11, 12]
    assert extents(TEXT, [10, 16]) == [8, 9, 10, 11, 12, 15, 16]
    assert extents(TEXT, [1]) == [1]


def test_text_that_cannot_be_parsed_shows_some_lines_around():
    assert extents("%%time\nx = 1 +\ny\nz\nw\n", [3]) == [1, 2, 3, 4, 5]
    assert extents("%%jaxpr --grad\ndef f(x):\n    return x\n\nf(1)\n", [3]) == [2, 3]


def test_of_a_long_function_only_the_used_lines_are_shown():
    long = "def f(x):\n" + "    x = x + 1\n" * 200 + "    return x\n"
    assert extents(long, [100]) == [98, 99, 100, 101, 102]


def shown(name, *panes):
    approved(f"views/source.{name}", text(Document("jaxpr", "f", panes), full=True))


def test_shares_and_notes_count_equations():
    module = program(
        Node("e0", "add", spans=(at(10), at(16))),
        Node("e1", "mul", spans=(at(12), at(16))),
        Node("e2", "sin", spans=(at(12), at(16))),
        Node("e3", "cos"),
    )
    under = {"e0": Line((Piece("b = add a 1"),), "e0")}
    (pane,) = blocks(module, {"/m.py": Source("m.py", TEXT)}, under)
    shown("equations", pane)
    lines = {row.number: row.line for row in pane.lines if row.line}
    assert lines == {10: "m.py:10", 12: "m.py:12"}


def test_an_overlay_tints_by_its_numbers():
    module = program(Node("e0", "dot", spans=(at(10),)), Node("e1", "mul", spans=(at(12),)))
    overlay = Overlay("flops", "jaxpr", {"e0": 999_000.0, "e1": 1000.0})
    shown("flops", *blocks(module, {"/m.py": Source("m.py", TEXT)}, {}, overlay, "flop"))


def test_libraries_come_last_in_a_fold():
    module = program(Node("e0", "add", spans=(at(5, True, "lib.py"), at(10))))
    sources = {"/lib.py": Source("lib.py", TEXT, True), "/m.py": Source("m.py", TEXT)}
    shown("library", *blocks(module, sources, {}))


def test_without_text_there_is_nothing_to_show():
    module = program(Node("e0", "add", spans=(at(10),)))
    assert blocks(module, {}, {}) == ()
    assert blocks(module, {"/m.py": Source("m.py", "")}, {}) == ()
    assert blocks(program(), {"/m.py": Source("m.py", TEXT)}, {}) == ()
