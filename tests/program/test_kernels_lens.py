"""Kernels with what they fused, their lines and their bytes."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.ir.facts import Kernel, Stage
from jaxlens.ir.stage import BY_NAME
from jaxlens.program.kernel_cost import kernel_costs
from jaxlens.program.kernels import places, tally, works
from jaxlens.viewer.kernel_table import by_cost, table
from tests.support import fixed_captures as fixed


def test_each_kernel_says_what_it_fused_and_from_which_lines() -> None:
    capture = fixed.capture()
    kernels = works(capture)
    assert tally(kernel.kernel for kernel in kernels) == "It runs as 2 kernels and 1 library call."
    # dot reads 128 + 64 B and writes 32; a fusion reads 32 + 8.
    costs = {cost.instruction: cost for cost in kernel_costs(capture)}
    both = "cell 3:2 and cell 3:3"
    assert [[cell.text for cell in row] for row in table(kernels, costs).rows] == [
        ["dot.1", "224 B", "128 flop", "cell 3:2", "dot", "library call"],
        ["max_fusion", "72 B", "16 flop", both, "broadcast x 2, add, maximum", "kernel"],
        ["gt_fusion", "48 B", "16 flop", both, "broadcast x 2, add, compare", "kernel"],
    ]


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
    timed = table(ordered, {}, measured)
    assert timed.volatile
    assert [row[1].text for row in timed.rows] == ["3 µs", "1 µs", ""]
    moved = {work.node.id: work.moved for work in kernels if work.node}
    assert moved == {"dot.1": 224.0, "max_fusion": 72.0, "gt_fusion": 48.0}


def test_a_kernel_of_an_unknown_instruction_keeps_its_note() -> None:
    capture = fixed.capture()
    stranger = Kernel("memset", "", "thunk", note="the runtime clears a buffer")
    capture.driver.kernels = lambda: (stranger,)
    work = works(capture)[0]
    assert (work.node, work.moved, work.lines) == (None, None, [])
    assert table([work], {}).rows[0][3].text == "the runtime clears a buffer"


def test_no_kernels_are_said_to_be_none() -> None:
    assert tally([]) == "It has no kernels."


def test_what_runs_in_a_loop_says_in_which_and_how_often() -> None:
    text = """HloModule m

%body (s: f32[4]) -> f32[4] {
  %s = f32[4]{0} parameter(0)
  ROOT %t = f32[4]{0} tanh(%s)
}

%cond (c: f32[4]) -> pred[] {
  %c = f32[4]{0} parameter(0)
  ROOT %k = pred[] constant(true)
}

ENTRY %e (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %w = f32[4]{0} while(%p), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"9"}}
}
"""  # noqa: E501
    module = fixed.module(text)
    by_name = places(module)
    assert by_name["t"] == "in w, 9 trips"
    assert "w" not in by_name
    capture = fixed.capture()
    capture.driver._stages["optimized"] = Stage(BY_NAME["optimized"], lambda: text, lambda: module)
    capture.driver.kernels = lambda: (Kernel("w", "w", "thunk"), Kernel("t", "t", "kernel"))
    rows = table(works(capture), {cost.instruction: cost for cost in kernel_costs(capture)}).rows
    assert [[cell.text for cell in row[:3]] for row in rows] == [
        ["w", "-", "-"],  # the body moves and computes
        ["t", "288 B", "0 flop"],
    ]


def test_what_goes_on_beside_other_work_is_placed_as_what_starts_it() -> None:
    text = """HloModule m

%side (s: f32[4]) -> f32[4] {
  %s = f32[4]{0} parameter(0)
  ROOT %t = f32[4]{0} tanh(%s)
}

%body (b: f32[4]) -> f32[4] {
  %b = f32[4]{0} parameter(0)
  %start = ((f32[4]{0}), f32[4]{0}, u32[]) async-start(%b), calls=%side
  ROOT %done = f32[4]{0} async-done(%start)
}

%cond (c: f32[4]) -> pred[] {
  %c = f32[4]{0} parameter(0)
  ROOT %k = pred[] constant(true)
}

ENTRY %e (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %w = f32[4]{0} while(%p), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"9"}}
}
"""  # noqa: E501
    by_name = places(fixed.module(text))
    assert by_name["t"] == by_name["start"] == "in w, 9 trips"


def test_how_a_gpu_launches_a_kernel_has_a_column_where_it_is_known() -> None:
    capture = fixed.capture()
    assert "launch" not in table(works(capture), {}).columns
    known = Kernel("max_fusion", "max_fusion", "kernel", launch="2 blocks of 128 threads")
    capture.driver.kernels = lambda: (known,)
    kernels = table(works(capture), {})
    assert kernels.rows[0][kernels.columns.index("launch")].text == "2 blocks of 128 threads"


def test_a_fused_slice_reads_the_slice_and_no_more() -> None:
    text = """HloModule m

%fused (t: f32[1000,50], i: s32[]) -> f32[1,50] {
  %t = f32[1000,50]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %z = s32[] constant(0)
  %row = f32[1,50]{1,0} dynamic-slice(%t, %i, %z), dynamic_slice_sizes={1,50}
  ROOT %twice = f32[1,50]{1,0} add(%row, %row)
}

ENTRY %e (p: f32[1000,50], j: s32[]) -> f32[1,50] {
  %p = f32[1000,50]{1,0} parameter(0)
  %j = s32[] parameter(1)
  ROOT %look = f32[1,50]{1,0} fusion(%p, %j), kind=kLoop, calls=%fused
}
"""
    capture = fixed.capture()
    capture.driver._stages["optimized"] = fixed.stage("optimized", text)
    capture.driver.kernels = lambda: (Kernel("look", "look", "kernel"),)
    (work,) = works(capture)
    assert (work.read, work.written) == (50 * 4 + 4, 50 * 4)  # a row and the index, of 200 kB


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
