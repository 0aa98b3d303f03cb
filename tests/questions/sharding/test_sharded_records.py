"""Lenses on two programs for four TPU chips, whose bytes and collectives were counted by hand.

`sharded_step` cuts the batch in two ("data") and the hidden layer in two ("model"); `exchanges` has
each collective once, and one in a loop of ten. See `tests/support/programs.py`.
"""

import re
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import pytest

import jaxlens
from jaxlens.ir.fact import BUFFERS
from jaxlens.ir.facts import Stage
from jaxlens.ir.hlo import reader as hlo
from jaxlens.program.kernel_cost import kernel_costs
from jaxlens.program.kernels import works
from jaxlens.questions.sharding.facts import facts
from jaxlens.questions.sharding.report import report
from jaxlens.viewer.kernel_table import alike, table
from tests.support.paths import RECORDS
from tests.support.wrapped import Wrapped

F32 = 4
DATA, MODEL = ((0, 2), (1, 3)), ((0, 1), (2, 3))


@cache
def record(name: str) -> jaxlens.Capture:
    return jaxlens.load(RECORDS / f"{name}.tpu-v5e-2x2.jaxlens")


def line(words: str) -> str:
    """The `file:line` of these words in the source text that the records contain."""
    (source,) = {one.text for one in record("exchanges").sources.values() if words in one.text}
    lines = source.splitlines()
    start = next(n for n, text in enumerate(lines) if "def sharded_step" in text)
    return f"programs.py:{1 + next(n for n in range(start, len(lines)) if words in lines[n])}"


# ---- who holds what, and what travels -----------------------------------------------------------


def test_pieces_are_what_jax_says_that_a_device_holds() -> None:
    sharding = jaxlens.sharding(record("sharded_step"))
    assert (sharding.devices, sharding.axes) == (4, (("data", 2), ("model", 2)))
    specs = {one.name: (one.spec, one.piece.shape) for one in (*sharding.inputs, *sharding.outputs)}
    # `NamedSharding.shard_shape` of each; the update leaves weights where they were.
    assert specs == {
        "params['w1']": ("P(None, 'model')", (256, 256)),
        "params['w2']": ("P('model', None)", (256, 128)),
        "x": ("P('data', None)", (32, 256)),
        "y": ("P('data', None)", (32, 128)),
        "result[0]['w1']": ("P(None, 'model')", (256, 256)),
        "result[0]['w2']": ("P('model', None)", (256, 128)),
        "result[1]": ("P()", ()),
    }


def test_a_train_step_sums_activations_over_one_axis_and_gradients_over_the_other() -> None:
    sharding = jaxlens.sharding(record("sharded_step"))
    forward, backward = sharding.collectives
    # The second product sums over the hidden layer, which "model" cuts: f32[32,128] on a device.
    assert (forward.opcode, forward.over, forward.groups) == ("all-reduce", ("model",), MODEL)
    assert forward.bytes == 32 * 128 * F32
    assert forward.lines == (line('hidden @ params["w2"]'),)
    # The gradients of both weights and the loss, which XLA combined into one.
    assert (backward.opcode, backward.over, backward.groups) == ("all-reduce", ("data",), DATA)
    assert backward.bytes == (256 * 256 + 256 * 128 + 1) * F32
    assert backward.lines == (line('x @ params["w1"]'), line('hidden @ params["w2"]'))
    # In a ring of two an all-reduce sends each byte once.
    assert sharding.sent == forward.bytes + backward.bytes
    assert sharding.findings[0].text.startswith("Each of 4 devices (data 2 x model 2) sends 410 kB")


PIECE = 32 * 128 * F32
EXCHANGES = MappingProxyType(
    {  # bytes, sent, trips, axis, the line
        "all-reduce": (PIECE, 10 * PIECE, 10, "data", "psum(c"),
        "all-gather": (2 * PIECE, PIECE, 1, "model", "all_gather"),
        "collective-permute": (PIECE, PIECE, 1, "data", "ppermute"),
        "reduce-scatter": (PIECE, PIECE / 2, 1, "model", "psum_scatter"),
        "all-to-all": (PIECE, PIECE / 2, 1, "data", "all_to_all"),
    }
)


@pytest.mark.parametrize("opcode", EXCHANGES)
def test_each_exchange(opcode: str) -> None:
    (one,) = [c for c in jaxlens.sharding(record("exchanges")).collectives if c.opcode == opcode]
    size, sent, trips, axis, words = EXCHANGES[opcode]
    assert (one.bytes, one.sent, one.trips, one.over) == (size, sent, trips, (axis,))
    assert one.lines == (line(words),)
    pairs = {(0, 2), (2, 0), (1, 3), (3, 1)}
    groups = {"data": set(DATA), "model": set(MODEL)}[axis]
    assert set(one.groups) == (pairs if opcode == "collective-permute" else groups)


def test_the_loop_sends_the_most() -> None:
    sharding = jaxlens.sharding(record("exchanges"))
    assert sharding.sent == sum(sent for _, sent, _, _, _ in EXCHANGES.values())
    assert f"most of it, 164 kB, in psum.9 (all-reduce) over data, from {line('psum(c')}" in (
        sharding.findings[0].text
    )
    assert not [f for f in sharding.findings if "unknown length" in f.text]
    found = facts(record("exchanges"))
    loop = next(one for one in found.collectives if one.opcode == "all-reduce")
    for times, words in ((4, "; 25% of it, 164 kB, in psum.9"), (6, " a run in 6 all-reduces.")):
        first = report(replace(found, collectives=(loop,) * times)).findings[0].text
        assert words in first


# ---- the other lenses, on what one device runs --------------------------------------------------


def test_flops_are_a_quarter_of_the_equations_on_each_device() -> None:
    cap = record("sharded_step")
    first, second = 2 * 64 * 256 * 512, 2 * 64 * 512 * 128
    cost = jaxlens.cost(cap, roofline="here")
    products = 2 * first + 3 * second  # both forwards, both gradients, and that of the hidden layer
    assert products < cost.flops < 1.01 * products
    made = [kernel for kernel in kernel_costs(cap) if kernel.product]
    assert products / 4 <= sum(kernel.flops for kernel in made) < 1.02 * products / 4
    assert cap.cost["flops"] == pytest.approx(sum(k.flops for k in kernel_costs(cap)), rel=1e-3)
    assert cost.limits.name == "TPU v5e"  # for which the record was made
    bounds = {point.kernel.opcode: point.bound for point in cost.points}
    assert bounds["all-reduce"] == "unknown"  # no limit of the links is known


def test_memory_is_of_one_device() -> None:
    use = jaxlens.memory(record("sharded_step"))
    weights = (256 * 256 + 256 * 128) * F32
    assert use.arguments == weights + 32 * 256 * F32 + 32 * 128 * F32
    # The new weights and the loss, which takes 512 B on a TPU, and the table of the three.
    assert 0 <= use.outputs - weights - 512 <= 1024
    assert use.kind("argument") == use.arguments
    assert use.peak >= use.arguments + weights


def test_what_a_collective_of_three_writes_is_read_in_its_parts() -> None:
    answer = jaxlens.fusion(record("sharded_step"))
    (one,) = [b for b in answer.boundaries if b.producer == "all-reduce.4"]
    assert len(one.consumers) == 3
    # The sums of both gradients lie in VMEM, S(1): the loss alone is written once, and read once.
    assert one.bytes == 2 * F32
    assert "all-reduce.4 exchanges data between devices" in one.why
    assert not [b for b in answer.boundaries if b.producer.endswith("-done")]


def test_what_is_begun_is_moved_once_and_loops_count_by_their_trips() -> None:
    kernels = {kernel.instruction: kernel for kernel in kernel_costs(record("exchanges"))}
    assert "collective-permute-done" not in kernels
    begun = kernels["collective-permute-start"]
    # From HBM into VMEM, which the parts of its type say: S(1) of the second.
    assert (begun.read, begun.written, begun.runs) == (PIECE, 0, 1)
    assert begun.memories == {"HBM": PIECE, "VMEM": PIECE}
    looped = kernels["psum.9"]
    assert (looped.runs, looped.open, looped.bytes) == (10, (), 0)
    assert looped.memories == {"HBM": 0, "VMEM": 10 * 2 * PIECE}  # reads and writes it


def test_what_attention_moves_through_hbm_is_its_inputs_and_its_result() -> None:
    """Scores, their maxima and sums lie in VMEM: three arrays are read, and one is written."""
    cap = record("attention")
    array = 2 * 4 * 16 * 8 * F32
    kernels = kernel_costs(cap)
    assert sum(kernel.bytes for kernel in kernels) == 4 * array
    assert {k.instruction for k in kernels if k.bytes == 0} == {"fusion.3", "iota_compare_fusion"}
    named = next(t for t in jaxlens.cost(cap).tables if "kernel" in t.columns)
    assert named.columns[4:7] == ("HBM", "% of HBM", "VMEM")
    costs = {kernel.instruction: kernel for kernel in kernels}
    shown = table(alike(works(cap), costs), costs)
    assert shown.columns[2:4] == ("HBM", "VMEM")
    for rows, hbm, vmem in ((named.rows, 4, 6), (shown.rows, 2, 3)):  # bars of one scale
        known = [row[n] for row in rows for n in (hbm, vmem) if row[n].value is not None]
        most = max(cell.value for cell in known)
        assert [cell.bar for cell in known] == [cell.value / most for cell in known]
    answer = jaxlens.fusion(cap)
    assert (answer.moved, answer.left) == (4 * array, 0)
    text = " ".join(finding.text for finding in answer.findings)
    assert "A run moves 16.4 kB in HBM and " in text
    assert "No value is written to HBM by one kernel and read by another." in text


@pytest.mark.parametrize(
    ("name", "reserved"),
    [  # sizes of XLA's allocations of color 1 and 2, read off the dumps
        ("attention", {"VMEM": 139_264, "SMEM": 4}),
        ("mlp_step", {"VMEM": 90_624, "SMEM": 12}),
        ("scan_rnn", {"VMEM": 65_536, "SMEM": 4, "memory space S(6)": 512}),
        ("sharded_step", {"VMEM": 1_212_416, "SMEM": 8}),
    ],
)
def test_each_memory_of_the_device_is_counted_by_its_name(name, reserved) -> None:
    cap = record(name)
    memory = jaxlens.memory(cap)
    assert {space.name: space.reserved for space in memory.spaces} == reserved
    assert all(0 < space.peak <= space.reserved for space in memory.spaces)
    said = " ".join(finding.text for finding in memory.findings)
    at_the_end = name in ("mlp_step", "sharded_step")  # of these the results make the peak
    assert (" of HBM at the end, when " if at_the_end else " of HBM when ") in said
    assert "HBM over the schedule" in memory.html()
    (table,) = (table for table in memory.tables if table.title == "Memory")
    rows = {row[0].text: row[1].value for row in table.rows}
    assert [rows[space.name] for space in memory.spaces] == [s.peak for s in memory.spaces]
    assert jaxlens.receipt(cap).on_chip == sum(space.peak for space in memory.spaces)


def test_what_moved_onto_the_chip_is_no_saving_of_memory() -> None:
    now = record("mlp_step")
    sizes = now.memory

    larger = replace(sizes, temporaries=sizes.temporaries + 90_624)
    facts = {
        "memory": lambda _: larger,
        "buffers": lambda fact: fact(BUFFERS).replace(" @1> ", " @0> "),
    }
    before = replace(now, driver=Wrapped(now.driver, facts=facts))
    assert jaxlens.receipt(before).on_chip < 100
    words = jaxlens.compare(before, now).findings[0].text
    assert "90.6 kB less temporary memory" in words
    assert "more memory on the chip (90.6 kB, was 12 B)" in words


def test_loops_of_a_tpu_have_the_length_of_their_scans() -> None:
    cap = record("scan_rnn")
    assert "known_trip_count" not in cap.optimized.raw  # XLA:TPU does not say
    runs = {kernel.runs for kernel in kernel_costs(cap)}
    assert not any(kernel.open for kernel in kernel_costs(cap))
    assert runs == {1, 20, 21}  # a condition is looked at once more
    assert "AllocateBuffer" in cap.optimized.raw  # which computes and moves nothing
    assert not [k for k in kernel_costs(cap) if k.opcode == "custom-call"]
    assert "custom call" not in str(jaxlens.cost(cap))


def test_the_target_is_one_that_is_not_here() -> None:
    target = record("sharded_step").program.target
    assert (target.absent, target.devices) == (True, 4)
    assert "for 4 x TPU v5 lite (tpu), which is not here" in " ".join(
        str(jaxlens.sharding(record("sharded_step"))).split()
    )


# ---- groups that cannot be read ------------------------------------------------------------------


def altered(words: str) -> jaxlens.Capture:
    """The train step with the replica groups of its collectives replaced."""
    capture = jaxlens.load(RECORDS / "exchanges.tpu-v5e-2x2.jaxlens")
    stage = capture.driver.stage("optimized")
    text = re.sub(
        r"replica_groups=(\{\{[\d,{}]*\}\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?)",
        f"replica_groups={words}",
        stage.raw,
    )
    assert text != stage.raw
    made = Stage(stage.info, lambda: text, lambda: hlo.read(text))
    return replace(capture, driver=Wrapped(capture.driver, {"optimized": lambda: made}))


@pytest.mark.parametrize("words", ["@mesh {'x'}", "[4,1]<=[4]"])
def test_what_cannot_be_read_is_unknown_and_not_nothing(words) -> None:
    """The second can be read, and does not fit what an all-gather makes of its operand."""
    sharding = jaxlens.sharding(altered(words))
    gather = next(one for one in sharding.collectives if one.opcode == "all-gather")
    assert gather.groups is None
    assert gather.sent is None
    said = " ".join(finding.text for finding in sharding.findings)
    assert "sends at least" in said or "sends what is not known" in said
    assert f"could not be read: {gather.id}" in said or gather.id in said
    rows = {row[0].text: [cell.text for cell in row] for row in sharding.tables[0].rows}
    assert rows[gather.id][5] == "unknown"
