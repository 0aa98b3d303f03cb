"""Collectives in libtpu's fusions, and what is computed while a collective travels."""

import re

import jaxlens
from jaxlens.questions.sharding.facts import facts
from jaxlens.questions.sharding.overlap import overlaps
from tests.support.fixed_captures import SPLIT_GATHERS
from tests.support.paths import RECORDS

# Starts and waits as XLA schedules them on GPUs; the product needs neither.
ASYNC = (
    """\
HloModule step, is_scheduled=true, num_partitions=4

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }

swap (p: f32[4,256]) -> f32[4,256] {
  p = f32[4,256]{1,0} parameter(0)
  ROOT s = f32[4,256]{1,0} all-to-all(p), channel_id=3, GROUPS, dimensions={0}
}

ENTRY main (x: f32[256,256], w: f32[64,256]) -> f32[256,256] {
  x = f32[256,256]{1,0} parameter(0)
  w = f32[64,256]{1,0} parameter(1)
  cut = f32[4,256]{1,0} slice(w), slice={[0:4], [0:256]}
  ag-start = (f32[64,256], f32[256,256]) all-gather-start(w), channel_id=1, GROUPS, IDS, AT
  swap-start = ((f32[4,256]{1,0}), f32[4,256]{1,0}) async-start(cut), calls=swap
  n = s32[] constant(1)
  n2 = s32[] add(n, n)
  product = f32[256,256]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ag-done = f32[256,256]{1,0} all-gather-done(ag-start)
  swap-done = f32[4,256]{1,0} async-done(swap-start)
  all-reduce.1 = f32[256,256]{1,0} all-reduce(ag-done), channel_id=2, GROUPS, IDS, to_apply=add
  ROOT sum = f32[256,256]{1,0} add(all-reduce.1, product)
}
""".replace("GROUPS", "replica_groups={{0,1,2,3}}")
    .replace("IDS", "use_global_device_ids=true")
    .replace("AT", "dimensions={0}")
)


def test_each_channel_of_a_tpu_program_is_one_collective() -> None:
    capture = jaxlens.load(RECORDS / "fsdp_step.tpu-v5e-2x2.jaxlens")
    channels: dict[str, set[str]] = {}
    for opcode, channel in re.findall(
        r" (all-gather|all-to-all|all-reduce|collective-permute-start)\([^\n]*?channel_id=(\d+)",
        capture.optimized.raw,
    ):
        channels.setdefault(opcode, set()).add(channel)
    sharding = facts(capture)
    found: dict[str, list[str]] = {}
    for collective in sharding.collectives:
        found.setdefault(collective.opcode, []).append(collective.id)
    # The one sum is in a fusion whose result is a device's piece of it.
    channels["reduce-scatter"] = channels.pop("all-reduce")
    channels["collective-permute"] = channels.pop("collective-permute-start")
    assert {k: len(v) for k, v in found.items()} == {k: len(v) for k, v in channels.items()}
    assert all(len(set(ids)) == len(ids) for ids in found.values())
    # Seven gathers of a bf16[2048,2048] or bf16[1024,2048], by hand: of a gather in a ring of four
    # a device sends three quarters.
    gathers = [c for c in sharding.collectives if c.opcode == "all-gather"]
    assert {c.bytes for c in gathers} == {2048 * 2048 * 2, 1024 * 2048 * 2}
    assert sum(c.sent or 0 for c in gathers) == 3 / 4 * sum(c.bytes or 0 for c in gathers)


def test_the_kernels_between_a_start_and_its_end_run_beside_it() -> None:
    capture = jaxlens.load(RECORDS / "fsdp_step.tpu-v5e-2x2.jaxlens")
    order = [node.id for node in capture.optimized.module.body().nodes]
    sharding = facts(capture)
    ends = {c.id: c.done for c in sharding.collectives}
    beside = {o.collective: o.kernels for o in sharding.overlaps}
    assert [id for id, kernels in beside.items() if kernels] == [id for id in ends if ends[id]]
    for id, kernels in beside.items():
        assert all(order.index(id) < order.index(k) < order.index(ends[id]) for k in kernels)
    words = " ".join(str(jaxlens.sharding(capture)).split())
    assert "11 of 17 collectives are waited for at once, kernels run beside the other 6" in words


def test_gathers_of_one_channel_are_told_apart_by_what_they_send() -> None:
    sharding = facts(jaxlens.capture(SPLIT_GATHERS))
    assert [(c.id, c.opcode, c.done, c.bytes, c.sent) for c in sharding.collectives] == [
        ("first.p", "all-gather", "last.p", 64, 48),
        ("first.q", "all-gather", "last.q", 128, 96),
    ]
    assert {o.collective: o.kernels for o in sharding.overlaps} == {
        "first.p": ("next.p",),
        "first.q": ("next.q",),
    }


def test_starts_and_waits_by_their_opcodes() -> None:
    sharding = facts(jaxlens.capture(ASYNC))
    assert {c.id: (c.opcode, c.done) for c in sharding.collectives} == {
        "ag-start": ("all-gather", "ag-done"),
        "swap-start": ("all-to-all", "swap-done"),
        "all-reduce.1": ("all-reduce", ""),
    }
    ends = {c.id: c.done for c in sharding.collectives}
    beside = {o.collective: o.kernels for o in overlaps(jaxlens.capture(ASYNC), ends)}
    # What counts for the schedule alone, a number, hides nothing.
    assert beside == {"ag-start": ("product",), "swap-start": ("product",), "all-reduce.1": ()}
