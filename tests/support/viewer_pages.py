"""A document for tests of the viewer, and what they do with and read from its page."""

from jaxlens.render.document import (
    Code,
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
from jaxlens.render.link_data import Web
from jaxlens.report import Cell, Finding, Table


def program(stage, prefix, count, owner):
    return tuple(
        Line(
            (Piece(f"{prefix}{n}", "name"), Piece(" = "), Piece(f"op{n % 7}", "op")),
            f"{prefix}{n}",
            1,
            owner(n),
        )
        for n in range(count)
    )


def of_line(n):
    return f"cell 3:{2 + n % 4}" if n % 4 < 3 else ""


def a_document(long=0, name="f(x)"):
    """Three stages linked by hand: op n is of equation n, instruction n holds ops 2n and 2n + 1."""
    ops, many = 24, max(long, 12)
    web = Web(
        atoms={
            "jaxpr": {f"e{n}": (n,) for n in range(ops)},
            "stablehlo": {f"s{n}": (n,) for n in range(ops)},
            "optimized": {f"fusion.{n}": (2 * n % ops, (2 * n + 1) % ops) for n in range(many)},
            "kernels": {"fusion.1": (2, 3)},
        },
        lines={f"cell 3:{k}": tuple(n for n in range(ops) if n % 4 == k - 2) for k in (2, 3, 4)},
        calls={"cell 3:5": (1, 5, 9), "cell 3:3": (3,)},
        fates={f"e{n}": f"fused into fusion.{n // 2}" for n in range(ops)},
        how={"optimized": {"": "stamped", "fusion.3": "inferred"}},
        stacks=(("cell 3:3 in f", "lib.py:9 in g"),),
        stack={f"e{n}": 0 for n in range(ops)},
        made={"e1": ("transpose", "jvp")},
    )
    under = {
        k: [x for x in program("jaxpr", "e", ops, of_line) if x.line.endswith(f":{k}")]
        for k in (2, 3, 4)
    }
    source = SourcePane(
        "cell 3",
        "share of 24 eqns",
        tuple(
            SourceLine(
                k,
                f"line_{k} = g(x)",
                len(under.get(k, ())) / ops or None,
                f"{len(under.get(k, ()))} eqns",
                tuple(under.get(k, ())),
                f"cell 3:{k}" if k in under else "",
            )
            for k in range(1, 7)
        ),
    )
    shown = program("optimized", "fusion.", many, of_line)
    table = Table("Kernels", ("kernel",), ((Cell("fusion.1", ids=("fusion.1",)),),))
    tabs = (
        Tab("Your code", (source,), key="source"),
        Tab("jaxpr", (Listing("jaxpr", program("jaxpr", "e", ops, of_line)),), key="jaxpr"),
        Tab("StableHLO", (Listing("stablehlo", program("", "s", ops, of_line)),), key="stablehlo"),
        Tab("Optimised HLO", (Listing("optimized", shown[:12], more=shown[12:]),), key="optimized"),
        Tab(
            "Kernels",
            (TableBlock(table), Fold("fusion.1: adds", (Code("llvm", "a\nb b\nc"),))),
            key="kernels",
        ),
        Tab("Said", (Findings((Finding("Two are one.", ids=("e2", "e3")),)),), key="said"),
    )
    return Document("hlo", name, (Tabs(tabs, open=("source", "optimized", "jaxpr")),), web)


LIT = """(mark) => [...document.querySelectorAll('.' + mark)].filter(e => e.checkVisibility())
  .map(e => [e.closest('details[data-pane]').dataset.pane, e.hasAttribute('data-id')
    ? e.dataset.id || e.textContent.trim().replace('ROOT ', '').split(' ')[0]
    : e.parentElement.dataset.line ?? ''].join(' '))"""


def lit(page, mark="lit"):
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return sorted(set(page.evaluate(LIT, mark)))


def row(page, pane, id):
    return page.locator(f"details[data-pane={pane}] .listing [data-id]", has_text=f"{id} =").first


def choose(page, *panes):
    """Shows these panes and no others."""
    page.evaluate(
        "panes => { const p = document.querySelector('.jaxlens').jaxlens.panes;"
        " p.shown = panes; p.show(); }",
        list(panes),
    )


def shown(page):
    return page.locator(".bar [aria-pressed=true]").all_inner_texts()
