"""Flops of a `shard_map`, whose body each device of the manual axes runs, against those by hand."""

import json
from copy import deepcopy
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxlens
from jaxlens.ir.graph import Node
from jaxlens.ir.jaxpr.equation_flops import devices_of_body
from jaxlens.program.counted import EquationSums, count_module, counted, facts
from jaxlens.program.subject import Given
from jaxlens.pytest_plugin.receipt_record import changes, record
from jaxlens.questions.compare.receipt import Receipt
from jaxlens.questions.cost.modules import module_costs
from jaxlens.questions.cost.report import report

pytestmark = pytest.mark.backend

LINE = AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
GRID = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
A = jax.ShapeDtypeStruct((64, 32), "float32")
B = jax.ShapeDtypeStruct((32, 16), "float32")
PRODUCT = 2 * 64 * 32 * 16


def product(a, b):
    return a @ b


def rows(f=product, mesh=LINE, **axes):
    return jax.shard_map(f, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), **axes)


def columns(a, b):  # the product of a device's columns of a and rows of b, summed over devices
    return jax.lax.psum(a @ b, "x")


def nested(a, b):
    inner = jax.shard_map(
        product, in_specs=(P("y"), P()), out_specs=P("y"), axis_names={"y"}, check_vma=False
    )
    return inner(a, b)


def looped(a, b):
    return jax.lax.scan(lambda c, _: (c + rows()(a, b), None), jnp.zeros((64, 16)), None, 10)[0]


PARTLY = rows(mesh=GRID, axis_names={"x"})
SUMMED = jax.shard_map(columns, mesh=LINE, in_specs=(P(None, "x"), P("x")), out_specs=P())
NESTED = rows(nested, mesh=GRID, axis_names={"x"}, check_vma=False)


def capture(f, a=A, b=B):
    return jaxlens.capture(f, a, b)


@pytest.mark.parametrize(
    ("f", "flops"),
    [
        (product, PRODUCT),
        (rows(), PRODUCT),
        (PARTLY, PRODUCT),
        (SUMMED, PRODUCT),
        (NESTED, PRODUCT),
        (looped, 10 * (PRODUCT + 64 * 16)),
        (jax.grad(lambda a, b: rows()(a, b).sum()), 2 * PRODUCT + 64 * 16 - 1),
    ],
    ids="plain rows partly summed nested looped grad".split(),
)
def test_the_body_counts_for_each_device_of_the_manual_axes(f, flops) -> None:
    shown = capture(f)
    assert jaxlens.receipt(shown).flops == flops
    cost = facts(shown, compiled=False)
    assert sum(cost.by_node.values()) == sum(cost.by_line.values()) == flops
    assert cost.once == (PRODUCT + 64 * 16 if f is looped else flops)
    module = shown.jaxpr.module
    whole = EquationSums(module, {}).run(module.entry, 0, len(module.body().nodes))
    assert whole == flops  # of a box in the graph


def test_under_vmap_and_in_the_core() -> None:
    batched = [jax.ShapeDtypeStruct((3, *x.shape), "float32") for x in (A, B)]
    assert jaxlens.receipt(capture(jax.vmap(rows()), *batched)).flops == 3 * PRODUCT
    of_core = {"mesh": "Mesh('i': 4, 'j': 2)"}
    assert devices_of_body(Node("e0", "shard_map", attrs=of_core)) == 8
    of_core["newly_manual_axes"] = "{'k'}"
    assert devices_of_body(Node("e0", "shard_map", attrs=of_core)) is None


def test_modules_have_the_flops_of_all_devices_and_shard_map_is_none() -> None:
    def layer(a, b):
        with jax.named_scope("Layer"):
            return a @ b

    shown = capture(jax.grad(lambda b, a: rows(layer)(a, b).sum()), B, A)
    (found,) = [m for m in module_costs(shown, (), None) if m.path == ("Layer",)]
    assert (found.forward, found.backward) == (PRODUCT, PRODUCT)
    assert module_costs(capture(rows()), (), None) == ()


def test_without_the_mesh_the_body_counts_once_and_it_is_said() -> None:
    shown = capture(rows())
    for node in shown.jaxpr.module.nodes():
        getattr(node, "attrs", {}).pop("mesh", None)
    cost = count_module(shown.jaxpr.module)
    assert (cost.flops, cost.counted) == (None, PRODUCT // 4)
    ((kind, trips),) = [(loop.kind, loop.trips) for loop in cost.loops]
    assert (kind, trips) == ("shard_map", None)
    text = str(report(replace(counted(shown), cost=cost, xla=Given(dict))).findings)
    assert "1 shard_map runs an unknown number of times; its body counts once." in text


def test_xlas_figure_is_of_one_device() -> None:
    both = replace(counted(capture(rows())), devices=4)
    texts = [
        one.text for one in report(replace(both, xla=Given(lambda: {"flops": 16384}))).findings
    ]
    assert "XLA's own figure for the optimised program on each of 4 devices: 16.4 kflop." in texts
    assert not [text for text in texts if "less" in text]


def test_flops_of_an_earlier_record_are_not_compared() -> None:
    """It counted the body for one device."""
    now = Receipt(capture(rows()))
    now.fingerprint = "a1" * 8  # there are no devices for a program to make one of
    written = json.loads(json.dumps(record(now, compiled=False)))
    assert changes(written, now, compiled=False).left_out == ()
    earlier = deepcopy(written) | {"version": 2}
    earlier["traced"]["flops"] //= 4
    differs = changes(earlier, now, compiled=False)
    assert differs.lines == ()
    assert differs.left_out == ("it was written with another version of jaxlens: not compared",)
    assert record(now, earlier, compiled=False) == written
