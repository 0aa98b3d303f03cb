"""Documents with every kind of block, from texts that JAX and XLA printed for one train step.

`texts/` holds the jaxpr of `value_and_grad(loss)`, its HLO before and after optimisation
with the stack frames resolved to lines, and one kernel's LLVM IR. The marks on their words
here are found by simple patterns: good enough to look at, no reader of the real thing.
"""

import re

from jaxlens.render.document import (
    Code,
    Diff,
    DiffGroup,
    DiffRow,
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
from jaxlens.report import Cell, Finding, Table, cells, count
from tests.support.paths import TEXTS

SOURCE = """\
%%jaxpr
def predict(params, x):
    w, b = params["w"], params["b"]
    return jax.nn.relu(x @ w + b)

def loss(params, x, y):
    def body(c, t): return jnp.tanh(c * t), c.sum()
    c, ys = jax.lax.scan(body, x[0], x)
    return jnp.mean((predict(params, x) - y) ** 2) + ys.sum()

jax.value_and_grad(loss)(params, x, y)""".splitlines()

TAKEN = (
    "jaxpr of value_and_grad(loss)(params['b']: f32[256], params['w']: f32[784,256], "
    "x: f32[128,784], y: f32[128,256]) on cpu"
)

_WORDS = re.compile(
    r"(?P<fold>, metadata=\{.*?\}|(?<=\])\{[\d,]*\})|(?P<type>\b[a-z]+\d*\[[\d,]*\])"
    r"|(?P<op>(?<=\] )[a-z][\w-]*(?=\()|(?<== )[a-z_0-9]+(?=[\[ ]))"
    r"|(?P<literal>\b\d+\.\d+\b)|(?P<keyword>\b(?:lambda|let|in|ROOT)\b)"
    r"|(?P<attr>, (?:dimensions|kind|index|to_apply|calls)=[^,]*)"
)
_JAXPR_LINES = {"scan": 8, "tanh": 7, "reduce_sum": 9, "add": 4, "dot_general": 4, "max": 4}


def pieces(text):
    """Words of a program line with their kinds."""
    found, end = [], 0
    for match in _WORDS.finditer(text):
        found += [Piece(text[end : match.start()]), Piece(match[0], match.lastgroup or "")]
        end = match.end()
    return tuple(p for p in (*found, Piece(text[end:])) if p.text)


def jaxpr_listing():
    lines = []
    for i, text in enumerate((TEXTS / "loss.jaxpr.txt").read_text().rstrip().split("\n")):
        op = re.search(r"(?<== )[a-z_0-9]+", text)
        line = f"cell 3:{_JAXPR_LINES.get(op[0], 9)}" if op else ""
        words = text.lstrip()
        indent = (len(text) - len(words)) // 2
        lines.append(Line(pieces(words), f"e{i}" if op else "", indent, line))
    return Listing("jaxpr", tuple(lines))


def hlo_lines(name):
    lines = []
    for text in (TEXTS / f"loss.{name}.hlo.txt").read_text().rstrip().split("\n"):
        where = re.search(r"source_line=(\d+)", text)
        node = re.match(r"\s*(?:ROOT )?%([\w.-]+) = ", text)
        words = text.lstrip()
        lines.append(
            Line(
                pieces(words),
                node[1] if node else "",
                (len(text) - len(words)) // 2,
                f"cell 3:{where[1]}" if where else "",
            )
        )
    return lines


def source_pane():
    listing = jaxpr_listing().lines
    lines = []
    for number, text in enumerate(SOURCE, 1):
        owner = f"cell 3:{number}"
        under = tuple(line for line in listing if line.line == owner)
        share = len(under) / 30 if under else None
        note, owner = (count(len(under), "eqn"), owner) if under else ("", "")
        lines.append(SourceLine(number, text, share, note, under, owner))
    return SourcePane("cell 3", "tint: share of equations", tuple(lines))


def diff():
    before = [line for line in hlo_lines("before") if line.id]
    after = {line.id: line for line in hlo_lines("after") if line.id}
    fused = [line for line in before if line.line == "cell 3:7"][:4]
    fusion = after["multiply_tanh_fusion"]
    rows = [DiffRow(line, fusion if i == 0 else None, "fused") for i, line in enumerate(fused)]
    gone = tuple(
        DiffRow(line, None, fate, note)
        for line, fate, note in zip(
            before[:3],
            ("folded", "removed", "merged"),
            ("constant-folding made it a constant", "dce: nobody reads it", "cse: with mul.2"),
            strict=True,
        )
    )
    same = tuple(DiffRow(line, line, "same") for line in before[60:66])
    new = (
        DiffRow(before[-1], after["tuple.6"], "rewritten", "algsimp"),
        DiffRow(None, after["copy.5"], "added", "copy-insertion"),
    )
    return Diff(
        "HLO before optimisation",
        "Optimised HLO",
        (
            DiffGroup("multiply_tanh_fusion: one kernel from 4 instructions", tuple(rows)),
            DiffGroup("Gone", gone),
            DiffGroup("Changed and added", new),
            DiffGroup("Unchanged: 6 instructions", same, open=False),
        ),
        "Followed by value, name and place; 100 % of instructions are accounted for.",
    )


def kernels():
    rows = (
        (Cell("multiply_tanh_fusion"), Cell("loop"), Cell("200,704", 200704, bar=1.0), Cell("3")),
        (Cell("maximum_subtract_fusion"), Cell("loop"), Cell("98,304", 98304, bar=0.49), Cell("4")),
        (Cell("reduce_add_fusion"), Cell("loop"), Cell("32,768", 32768, bar=0.16), Cell("2")),
        (Cell("ynn_fusion"), Cell("library call"), Cell("unknown"), Cell("2")),
    )
    return Table(
        "Kernels",
        ("kernel", "kind", "flops", "instructions"),
        rows,
        "flops counted from the program; loops count every trip",
        right=(2, 3),
    )


def times():
    return Table(
        "Time per stage",
        ("stage", "ms"),
        (cells("trace", "12.1"), cells("lower", "8.4"), cells("compile", "120.9")),
        volatile=True,
        right=(1,),
    )


def findings():
    return Findings(
        (
            Finding("Two matrix products take 98 % of 103 Mflop; both are library calls."),
            Finding(
                "XLA counts 51.7 Mflop: it counts the loop's body once, and it runs 128 times.",
                "xla",
            ),
            Finding("The call took 1.2 ms, the median of 20 runs.", "measured"),
            Finding("A roofline puts it at 0.4 ms.", "estimate"),
        )
    )


def llvm():
    return Code("llvm", (TEXTS / "maximum_subtract.ll").read_text(), "after LLVM's optimisations")


def everything():
    """Every kind of block but a drawing."""
    before, after = hlo_lines("before"), hlo_lines("after")
    panes = (
        Tab("Your lines", (source_pane(), findings()), True, "What each line became."),
        Tab("jaxpr", (jaxpr_listing(),), True, "The equations that tracing recorded."),
        Tab("Before and after", (diff(),), True, "What fusion swallowed."),
        Tab("HLO", (Listing("hlo", tuple(before)),), False),
        Tab("Optimised HLO", (Listing("optimized", tuple(after), "all of it"),), False),
        Tab("Kernels", (TableBlock(kernels()), Fold("LLVM IR", (llvm(),))), True),
        Tab("Times", (TableBlock(times()),), True),
    )
    return Document("compile", TAKEN, (Tabs(panes, open=("your-lines", "kernels")),))
