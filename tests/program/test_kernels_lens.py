"""Kernels with what they fused, their lines and their bytes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.ir.facts import Kernel, Stage
from jaxlens.ir.hlo.instructions import input_names
from jaxlens.ir.stage import BY_NAME
from jaxlens.program.kernel_cost import kernel_costs
from jaxlens.program.kernels import Work, places, tally, works
from jaxlens.render.document import TableBlock, Tabs
from jaxlens.viewer.kernel_table import alike, by_cost, table
from tests.support import fixed_captures as fixed
from tests.support.paths import RECORDS, TEXTS


def test_kernels_are_in_the_order_of_their_time_else_of_their_bytes() -> None:
    capture = fixed.capture()
    kernels = works(capture)[::-1]
    assert [work.kernel.name for work in by_cost(kernels, {})] == [
        "dot.1",
        "max_fusion",
        "gt_fusion",
    ]
    measured = {"gt_fusion": 3e-6, "max_fusion": 1e-6}
    ordered = by_cost(kernels, {}, measured)
    assert [work.kernel.name for work in ordered] == ["gt_fusion", "max_fusion", "dot.1"]
    timed = table(alike(ordered, {}, measured), {}, measured)
    assert timed.volatile
    assert [row[2].text for row in timed.rows] == ["3 µs", "1 µs", ""]
    # dot reads 128 + 64 B and writes 32; a fusion reads 32 + 8.
    moved = {work.node.id: work.moved for work in kernels if work.node}
    assert moved == {"dot.1": 224.0, "max_fusion": 72.0, "gt_fusion": 48.0}


def test_a_kernel_of_an_unknown_instruction_keeps_its_note() -> None:
    capture = fixed.capture()
    stranger = Kernel("memset", "", "thunk", note="the runtime clears a buffer")
    capture.driver.kernels = lambda: (stranger,)
    work = works(capture)[0]
    assert (work.node, work.moved, work.lines) == (None, None, [])
    assert table(alike([work], {}), {}).rows[0][3].text == "the runtime clears a buffer"


def test_what_is_done_to_each_leaf_is_one_row() -> None:
    text = (TEXTS / "kernels_of_leaves.hlo.txt").read_text()
    capture = fixed.capture()
    capture.driver._stages["optimized"] = fixed.stage("optimized", text)
    ids = ("n.1", "n.2", "again", "n.3", "other", "n.4", "t")
    capture.driver.kernels = lambda: tuple(Kernel(id, id, "kernel") for id in ids)
    kernels, module = works(capture), capture.optimized.module
    costs = {cost.instruction: cost for cost in kernel_costs(capture)}
    shown = table(alike(kernels, costs, names=input_names(module)), costs)
    assert [[cell.text for cell in row[1:4]] for row in shown.rows] == [
        ["n x 2: params[*]", "96 B", "12 flop"],
        ["n.3 x 2: model.layers[*]", "64 B", "8 flop"],
        ["again", "32 B", "4 flop"],  # of a leaf that is in the first row
        ["n.4", "32 B", "4 flop"],  # an argument is no leaf
        ["t", "32 B", "0 flop"],
    ]
    assert shown.rows[0][1].ids == ("n.1", "n.2")
    assert "two kernels that do the same" in shown.note
    assert len(alike(kernels, costs)) == len(kernels)


def test_by_published_limits_kernels_have_their_least_time() -> None:
    found = jaxlens.compile(RECORDS / "mlp_step.gpu-h100.jaxlens")
    tabs = next(block for block in found.document.blocks if isinstance(block, Tabs))
    blocks = next(tab.blocks for tab in tabs.tabs if tab.key == "kernels")
    shown = next(block.table for block in blocks if isinstance(block, TableBlock))
    least = [row[shown.columns.index("at best")].value for row in shown.rows]
    assert least == sorted(least, reverse=True)
    assert "At best: an estimate" in shown.note
    assert not shown.volatile


def test_no_kernels_are_said_to_be_none() -> None:
    assert tally([]) == "It has no kernels."


def test_what_the_runtime_does_itself_is_counted_by_its_opcode() -> None:
    kinds = ["thunk", "copy", "kernel", "copy", "all-reduce", "library call"]
    assert tally(kinds) == (
        "It runs as 1 kernel, 1 library call, 1 all-reduce, 2 copies and 1 thunk."
    )
    node = next(node for node in fixed.module(fixed.AFTER).nodes() if node.opcode == "dot")
    loop = replace(node, opcode="while")
    kernels = Kernel("a", "dot.1", "thunk"), Kernel("b", "dot.1", "library call")
    shown = [Work(kernel, at, (), None, None).kind for kernel in kernels for at in (loop, node)]
    assert shown == ["loop", "dot", "library call", "library call"]


def test_what_runs_in_a_loop_says_in_which_and_how_often() -> None:
    text = (TEXTS / "loop_of_nine.hlo.txt").read_text()
    module = fixed.module(text)
    by_name = places(module)
    assert by_name["t"] == "in w, 9 trips"
    assert "w" not in by_name
    capture = fixed.capture()
    capture.driver._stages["optimized"] = Stage(BY_NAME["optimized"], lambda: text, lambda: module)
    capture.driver.kernels = lambda: (Kernel("w", "w", "thunk"), Kernel("t", "t", "kernel"))
    costs = {cost.instruction: cost for cost in kernel_costs(capture)}
    rows = table(alike(works(capture), costs), costs).rows
    assert [[cell.text for cell in row[1:4]] for row in rows] == [
        ["t", "288 B", "0 flop"],
        ["w", "-", "-"],  # the body moves and computes
    ]


def test_what_goes_on_beside_other_work_is_placed_as_what_starts_it() -> None:
    text = (TEXTS / "loops_nested.hlo.txt").read_text()
    by_name = places(fixed.module(text))
    assert by_name["t"] == by_name["start"] == "in w, 9 trips"


def test_how_a_gpu_launches_a_kernel_has_a_column_where_it_is_known() -> None:
    capture = fixed.capture()
    assert "launch" not in table(alike(works(capture), {}), {}).columns
    known = Kernel("max_fusion", "max_fusion", "kernel", launch="2 blocks of 128 threads")
    capture.driver.kernels = lambda: (known,)
    kernels = table(alike(works(capture), {}), {})
    assert kernels.rows[0][kernels.columns.index("launch")].text == "2 blocks of 128 threads"


@pytest.mark.skipif(
    jax.version.__version_info__ >= (0, 11), reason="newer XLA makes a call of it, and no dot"
)
def test_a_dot_that_xla_rewrote_still_has_its_line() -> None:
    def rnn(w, xs):
        def cell(h, x):
            return jnp.tanh(x + h @ w), None

        return jax.lax.scan(cell, xs[0], xs)[0].sum()

    capture = jaxlens.capture(jax.grad(rnn), jnp.ones((8, 8)), jnp.ones((4, 8)))
    line = f"test_kernels_lens.py:{rnn.__code__.co_firstlineno + 2}"
    dots = [work for work in works(capture) if any("dot" in node.opcode for node in work.inside)]
    assert dots
    assert all(line in work.lines for work in dots)
