"""What `%%compile` shows by default and for each option."""

import pytest

from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Verdict
from jaxlens.render.document import (
    Code,
    Document,
    Findings,
    Fold,
    Picture,
    SourcePane,
    TableBlock,
    Tabs,
)
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support import fixed_captures as fixed
from tests.support.documents import compile as document

TIMES = [
    "Time per stage",
    "Within the compile",
    "HLO passes",
    "Kernels",
    "Equations by line",
]
MEMORY = ["Memory at the peak, by line", "Buffers at the peak", "Memory"]


def finding_texts(viewed: Document) -> str:
    """Returns the sentences above the panes, those that are folded too."""
    blocks = [b for block in viewed.blocks for b in (getattr(block, "blocks", ()) or (block,))]
    return " ".join(
        finding.text
        for block in blocks
        if isinstance(block, Findings)
        for finding in block.findings
    )


def tabs(viewed: Document) -> dict:
    (block,) = (block for block in viewed.blocks if isinstance(block, Tabs))
    return {tab.title: tab.blocks for tab in block.tabs}


def titles(blocks) -> list[str]:
    return [block.table.title for block in blocks if isinstance(block, TableBlock)]


def test_the_verdict_comes_first_and_times_are_volatile() -> None:
    shown = document(fixed.capture())
    assert finding_texts(shown).startswith(
        "Cache: this call would miss: it is traced, lowered and compiled"
    )
    assert " 5 equations became 2 kernels and 1 library call. " in finding_texts(shown)
    assert "x: f32[4,8], was f32[2,8]" in finding_texts(shown)
    (times,) = (block.table for block in shown.blocks if isinstance(block, TableBlock))
    assert times.title == "Time per stage"
    assert times.volatile
    assert "250 ms" not in text(shown)
    assert "250 ms" in text(shown, times=True)


def test_that_a_first_call_misses_is_no_news() -> None:
    class Driver(fixed.FixedDriver):
        def verdict(self):
            return Verdict(False, "trace")

    shown = document(Capture(fixed.capture().program, Driver()))
    assert "Cache:" not in finding_texts(shown)


def test_tabs_by_default() -> None:
    tab_blocks = tabs(document(fixed.capture()))
    assert list(tab_blocks) == [
        "Your code",
        "Optimised HLO",
        "Kernels",
        "LLVM IR",
        "Assembly",
        "Cost",
        "Memory",
    ]
    assert titles(tab_blocks["Kernels"]) == ["Kernels"]
    assert titles(tab_blocks["Cost"]) == ["Cost", "Flops by line"]
    assert titles(tab_blocks["Memory"]) == MEMORY
    (each,) = (block for block in tab_blocks["Kernels"] if isinstance(block, Fold))
    (listing,) = each.blocks
    lines = ["".join(p.text for p in line.pieces) for line in (*listing.lines, *listing.more)]
    assert [line for line in lines if line.startswith("#")] == [
        "# max_fusion: broadcast x 2, add, maximum",
        "# gt_fusion: broadcast x 2, add, compare",
    ]


def test_the_users_lines_are_tinted_by_flops() -> None:
    (pane,) = tabs(document(fixed.capture()))["Your code"]
    assert isinstance(pane, SourcePane)
    shares = {line.number: line.share for line in pane.lines}
    assert shares[1] is None
    assert shares[2] == pytest.approx(136 / 152)
    assert shares[3] == pytest.approx(16 / 152)


def test_one_kernel_with_its_hlo_and_code() -> None:
    shown = document(fixed.capture(), OPTIONS["compile"](kernel="max_fusion"))
    (panes,) = [block for block in shown.blocks if isinstance(block, Tabs)]
    titles = ["HLO", "LLVM IR", "LLVM IR, optimised", "Assembly"]
    assert [tab.title for tab in panes.tabs] == titles
    codes = [block for tab in panes.tabs for block in tab.blocks if isinstance(block, Code)]
    assert [code.language for code in codes] == ["llvm", "llvm", "asm"]
    assert "max_fusion is a kernel" in finding_texts(shown)
    assert "40 B in, 32 B out" in finding_texts(shown)


def test_a_library_call_says_why_it_has_no_code() -> None:
    shown = document(fixed.capture(), OPTIONS["compile"](kernel="dot.1"))
    assert "the runtime calls a library for dot" in finding_texts(shown)
    assert not [block for block in shown.blocks if isinstance(block, Code)]


def test_assembly_of_one_kernel_and_of_all() -> None:
    one = document(fixed.capture(), OPTIONS["compile"](kernel="gt_fusion", asm=True))
    assert [type(block) for block in one.blocks] == [Code]
    every = document(fixed.capture(), OPTIONS["compile"](asm=True))
    assert [b.title for b in every.blocks if isinstance(b, Fold)] == ["max_fusion", "gt_fusion"]
    assert "Without asm: dot.1" in finding_texts(every)


def test_an_unknown_kernel_gets_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"^no kernel 'max_fuson'; did you mean 'max_fusion'\?$"):
        document(fixed.capture(), OPTIONS["compile"](kernel="max_fuson"))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("times", TIMES),
        ("why", []),
    ],
)
def test_an_option_shows_its_own_alone(option, expected) -> None:
    shown = document(fixed.capture(), OPTIONS["compile"](**{option: True}))
    assert titles(shown.blocks) == expected
    assert not [block for block in shown.blocks if isinstance(block, Tabs)]


def test_memory_at_the_peak_stands_under_its_chart() -> None:
    whole = document(fixed.capture(), OPTIONS["compile"](memory=True))
    assert any(isinstance(block, Picture) for block in whole.blocks)
    tab_blocks = tabs(whole)
    assert list(tab_blocks) == ["At the peak", "Your code"]
    assert titles(tab_blocks["At the peak"]) == MEMORY
    (pane,) = tab_blocks["Your code"]
    shares = {line.number: line.share for line in pane.lines if line.share}
    assert shares == {2: pytest.approx(32 / 40), 3: pytest.approx(8 / 40)}


def test_costs_stand_in_tabs_your_lines_first() -> None:
    tab_blocks = tabs(document(fixed.capture(), OPTIONS["compile"](cost=True)))
    assert list(tab_blocks) == ["Your code", "Kernels", "Cost"]
    assert titles(tab_blocks["Kernels"]) == ["Flops and bytes by kernel"]
    assert titles(tab_blocks["Cost"]) == ["Cost", "Flops by line"]
    roofs = document(fixed.capture(), OPTIONS["compile"](roofline="h100"))
    roof = tabs(roofs)
    assert list(roof) == ["Your code", "Kernels", "Cost"]
    assert any(isinstance(block, Picture) for block in roofs.blocks)
    (pane,) = tab_blocks["Your code"]
    assert isinstance(pane, SourcePane)


def test_a_run_is_shown_with_how_it_was_measured() -> None:
    run = Run((0.002, 0.001, 0.004), 1, "wall clock, block_until_ready", None)
    table = document(fixed.capture(), OPTIONS["compile"](cost=True), run).blocks[0].table
    assert [cell.text for cell in table.rows[0]] == ["3", "2 ms", "1 ms", "4 ms"]
    assert table.note == "wall clock, block_until_ready"
    assert table.volatile


def test_what_a_backend_does_not_give_is_a_sentence_in_its_place() -> None:
    shown = document(fixed.capture("kernels", "memory", "cost"))
    assert "this backend gives no kernels." in finding_texts(shown)
    assert "this backend gives no memory." in finding_texts(shown)
    assert list(tabs(shown)) == ["Your code", "Optimised HLO", "Cost"]


def test_the_sentences_stand_above_the_tabs_and_are_said_once() -> None:
    shown = document(fixed.capture())
    assert "152 flop counted over the equations." not in finding_texts(shown)  # of the cost pane
    assert "XLA's own figure for the optimised program: 160 flop." not in finding_texts(shown)
    assert "Memory: arguments 200 B" not in finding_texts(shown)  # of a peak not worth telling
    written = text(shown, full=True)
    for sentence in ("152 flop counted", "XLA's own figure", "Memory: arguments"):
        assert written.count(sentence) == 1


def test_three_sentences_stand_above_the_tabs_and_the_others_are_a_click_away() -> None:
    shown = document(fixed.capture())
    first, more = shown.blocks[:2]
    assert isinstance(first, Findings)
    assert isinstance(more, Fold)
    (rest,) = more.blocks
    assert len(first.findings) == 3
    assert more.title == f"and {len(rest.findings)} more"
    assert not {f.text for f in first.findings} & {f.text for f in rest.findings}
    assert max(f.weight for f in rest.findings) <= min(f.weight for f in first.findings)
    assert f"[+] {more.title}  (folded; .text(full=True) opens it)" in text(shown)
    assert document(fixed.capture(), OPTIONS["compile"](full=True)).blocks[1].open


def test_the_text_has_the_tables_and_names_the_other_tabs() -> None:
    written = text(document(fixed.capture()))
    for table in ("Kernels\n", "Cost\n", "Memory\n"):
        assert f"  {table}" in written
    assert written.endswith("writes them): Your code, Optimised HLO, LLVM IR, Assembly.")
