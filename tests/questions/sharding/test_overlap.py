"""Collectives in libtpu's fusions, and what is computed while a collective travels."""

import re

import jaxlens
from jaxlens.questions.sharding.facts import facts
from jaxlens.questions.sharding.overlap import overlaps
from tests.support.fixed_captures import SPLIT_GATHERS
from tests.support.paths import RECORDS, TEXTS

# Starts and waits as XLA schedules them on GPUs; the product needs neither.
ASYNC = (TEXTS / "collectives_of_a_gpu.hlo.txt").read_text()


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
