"""Targets side by side: a column each, panes linked through the equations, and those not here."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import OptionError, TargetError
from jaxlens.program.figures import Figures
from jaxlens.render.document import Listing, TableBlock, Tabs, walk
from jaxlens.viewer.side_by_side import on_targets
from tests.support.paths import RECORDS
from tests.support.wrapped import Wrapped

NAMES = ("cpu", "gpu-h100", "tpu-v5e-2x2")


def record(name, program="mlp_step"):
    return jaxlens.load(RECORDS / f"{program}.{name}.jaxlens")


@pytest.fixture(scope="module")
def three():
    return jaxlens.side_by_side(*map(record, NAMES))


def test_each_target_has_a_column_with_its_own_figures(three):
    assert [one.name for one in three.columns] == ["cpu", "NVIDIA H100 80GB HBM3", "TPU v5 lite"]
    for one, name in zip(three.columns, NAMES, strict=True):
        figures = Figures(record(name))
        assert one.figures["kernels"] == figures.get("kernels")
        assert one.figures["peak"] == figures.get("peak")
    (table,) = three.tables
    assert table.columns[1:] == tuple(one.name for one in three.columns)
    rows = {row[0].text: [cell.value for cell in row[1:]] for row in table.rows}
    assert rows["kernels"] == [one.figures["kernels"] for one in three.columns]
    assert rows["flops by XLA, loops once"][1] is None  # not given for an absent GPU
    assert "side by side for cpu, NVIDIA H100 80GB HBM3 and TPU v5 lite" in str(
        three.document.taken
    )
    assert three.findings[1].text.endswith("autotuning is off, a real one's program may differ.")


def test_nodes_of_all_targets_are_linked_through_the_equations(three):
    web = three.document.web
    stages = {
        f"{stage} on {one.name}" for one in three.columns for stage in ("optimized", "kernels")
    }
    assert web.atoms.keys() == {"jaxpr", *stages}
    (tanh,) = [node.id for node in record("cpu").jaxpr.module.nodes() if node.opcode == "tanh"]
    (atom,) = web.atoms["jaxpr"][tanh]
    for name, one in zip(NAMES, three.columns, strict=True):
        module = record(name).optimized.module
        computing = {node.id for node in module.nodes() if node.opcode == "tanh"}
        linked = {id for id, of in web.atoms[f"optimized on {one.name}"].items() if atom in of}
        assert computing <= linked, name
        assert not linked >= web.atoms[f"optimized on {one.name}"].keys()


def test_ids_of_the_panes_are_those_that_are_linked(three):
    web = three.document.web
    shown = [step.part for step in walk(three.document.blocks) if step.move == "block"]
    stages = {part.stage for part in shown if isinstance(part, Listing)}
    assert stages == {"jaxpr", *(f"optimized on {one.name}" for one in three.columns)}
    for part in shown:
        if isinstance(part, TableBlock) and part.table.stage:
            ids = {id for row in part.table.rows for cell in row for id in cell.ids}
            assert ids <= web.atoms[part.table.stage].keys()


def test_explore_opens_two_programs_and_the_lines(three):
    explored = jaxlens.side_by_side(*map(record, NAMES), explore=True).document
    (tabs,) = [block for block in explored.blocks if isinstance(block, Tabs)]
    assert tabs.open == ("source", "optimized-1", "optimized-2")  # narrow: two
    assert {tab.key for tab in tabs.tabs} >= set(tabs.open)
    (tabs,) = [block for block in three.document.blocks if isinstance(block, Tabs)]
    assert tabs.open == ("kernels-1", "kernels-2", "kernels-3")


def test_programs_of_other_equations_are_not_linked():
    mine, other = record("cpu"), record("tpu-v5e-2x2", "attention")
    call = mine.program
    named = replace(other.program, name=call.name, transforms=call.transforms, inputs=call.inputs)
    both = jaxlens.side_by_side(mine, replace(other, program=named))
    assert both.document.web.atoms.keys() == {"jaxpr", "optimized on cpu", "kernels on cpu"}


def test_equal_targets_have_different_names():
    cap = record("cpu")
    other = replace(cap, program=replace(cap.program, flags=("without fusion",)))
    names = [one.name for one in jaxlens.side_by_side(cap, cap, other).columns]
    assert names == ["cpu", "cpu (2)", "cpu, without fusion"]


def test_a_program_that_is_missing_or_does_not_compile_is_a_column_that_says_why():
    def refused_by_pallas():
        raise NotImplementedError("no lowering of scatter\nfor Triton")

    cap, kind = record("gpu-h100"), "NVIDIA H100 80GB HBM3"
    refused = replace(cap, driver=Wrapped(cap.driver, {"optimized": refused_by_pallas}))
    programs = [
        ("cpu", record("cpu")),
        ("gpu:h100", refused),
        ("tpu:v9", TargetError("no target 'tpu:v9' here")),
    ]

    shown = on_targets(programs)
    assert [one.missing for one in shown.columns] == [
        "",
        f"it does not compile for {kind}: NotImplementedError: no lowering of scatter",
        "no target 'tpu:v9' here",
    ]
    assert "- tpu:v9: no target 'tpu:v9' here. [unknown]" in str(shown)
    assert [cell.text for cell in shown.tables[0].rows[0][2:]] == ["-", "-"]


def test_nothing_to_show_is_an_error():
    with pytest.raises(OptionError, match="takes one capture or more"):
        jaxlens.side_by_side()

    with pytest.raises(TargetError, match="no target"):
        on_targets([("tpu", TargetError("no target 'tpu' here"))])


def test_flops_that_are_not_all_counted_are_said_to_be():
    a = jnp.ones((8, 8))
    programs = (
        jaxlens.capture(lambda a: jnp.linalg.svd(a), a),
        jaxlens.capture(lambda a: jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x + x, a), a),
    )
    text = " ".join(str(jaxlens.side_by_side(*programs)).split())
    assert " flops unknown unknown " in text
    assert "Not all is counted: " in text
    assert "runs an unknown number of times" in text
    assert "no rule for svd" in text


def test_a_program_without_a_jaxpr_has_the_other_figures():
    compiled = jax.jit(lambda x: jnp.tanh(x) @ x).lower(jnp.ones((8, 8))).compile()
    one = jaxlens.capture(compiled.as_text())
    rows = [row[0].text for row in jaxlens.side_by_side(one, one).tables[0].rows]
    assert "library calls" in rows
    assert "flops" not in rows


def test_two_calls_are_refused_and_compare_is_named():
    def f(x):
        return x + 1

    def g(x):
        return x * 2

    caps = [jaxlens.capture(h, jnp.ones(n)) for h, n in ((f, 3), (g, 3), (f, 5))]
    with pytest.raises(OptionError, match=r"got f\(f32\[3\]\) and g\(f32\[3\]\); jaxlens.compare"):
        jaxlens.side_by_side(caps[0], caps[1])
    with pytest.raises(OptionError, match=r"got f\(f32\[3\]\) and f\(f32\[5\]\)"):
        jaxlens.side_by_side(caps[0], caps[2])
    with pytest.raises(TargetError, match=r"one name, got .*side_by_side"):
        jaxlens.capture(f, jnp.ones(3), target=["cpu", "gpu:h100"])


def test_figures_of_one_device_say_so():
    target = record("cpu").program.target
    cap = record("cpu")
    sharded = replace(cap, program=replace(cap.program, target=replace(target, devices=4)))
    shown = jaxlens.side_by_side(sharded, record("gpu-h100"))
    titles = [row[0].text for row in shown.tables[0].rows]
    assert "flops, all devices" in titles
    assert {"memory at the peak, one device", "flops by XLA, loops once, one device"} <= {*titles}
    assert "kernels" in titles
    assert "of main memory of each device at the peak" in shown.findings[0].text


def test_calls_that_differ_in_a_late_argument_are_two_calls():
    def total(*xs):
        return sum(x.sum() for x in xs)

    four = [jnp.ones(3)] * 4
    calls = [jaxlens.capture(total, *four, jnp.ones(n)) for n in (3, 5)]
    with pytest.raises(OptionError, match="one call on several targets"):
        jaxlens.side_by_side(*calls)
