"""Lenses on real programs: fusion is followed to the last instruction, counts agree with XLA."""

import jax
import jax.numpy as jnp
import pytest

from jaxlens.links.match.same_compile import relate
from jaxlens.program.counted import facts
from jaxlens.program.fusion_change import across_fusion
from jaxlens.program.kernels import works
from jaxlens.stages.driver import capture
from tests.support.model_programs import captured

pytestmark = pytest.mark.backend

NAMES = ["mlp_step", "attention", "scan_rnn"]


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_is_followed_through_fusion(name: str) -> None:
    change, _ = across_fusion(captured(name))
    before = change.before
    called = {name for node in before.nodes() for name in node.regions} | {before.entry}
    dead = {n.id for name, r in before.regions.items() if name not in called for n in r.nodes}
    lost = {
        id: (fate.by, fate.note)
        for id, fate in change.fates.items()
        if not fate.into and id not in dead
    }
    assert lost == {}
    assert any(fate.name == "fused" for fate in change.fates.values())


@pytest.mark.parametrize("name", NAMES)
def test_values_link_what_metadata_says_is_the_same(name: str) -> None:
    """Links by value, found without metadata, against XLA's own `op_name` metadata."""
    change, _ = across_fusion(captured(name))
    old = {node.id: node for node in change.before.nodes()}
    new = {node.id: node for node in change.after.nodes()}
    pairs = [
        (old[link.tail].scope, new[link.head].scope)
        for link in relate(change.before, change.after).links
        if link.how == "value" and old[link.tail].scope and new[link.head].scope
    ]
    assert len(pairs) > 10
    assert sum(a == b for a, b in pairs) >= 0.9 * len(pairs)


@pytest.mark.parametrize("name", NAMES)
def test_every_fusion_holds_what_came_from_somewhere(name: str) -> None:
    change, _ = across_fusion(captured(name))
    nodes = {node.id: node for node in change.after.nodes()}
    origins = {head for fate in change.fates.values() for head in fate.into}
    held = [id for inner in change.contents.values() for id in inner]
    strangers = [id for id in held if id not in origins and nodes[id].opcode != "constant"]
    assert held
    assert strangers == []


@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_is_an_instruction_of_the_program(name: str) -> None:
    assert all(work.node is not None for work in works(captured(name)))


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "float32")


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda a, b: a @ b, (shape(32, 48), shape(48, 16))),
        (lambda a, b: jnp.maximum(a @ b, 0.0), (shape(32, 48), shape(48, 16))),
        (
            lambda x, k: jax.lax.conv_general_dilated(x, k, (2, 2), "SAME"),
            (shape(2, 3, 9, 9), shape(4, 3, 3, 3)),
        ),
        (lambda x: (x * x).sum(0) - x[0], (shape(16, 8),)),
    ],
)
def test_flops_without_loops_are_what_xla_counts_before_it_optimises(f, shapes) -> None:
    expected = jax.jit(f).lower(*shapes).cost_analysis()["flops"]
    assert facts(capture(f, shapes), compiled=False).flops == expected


def test_xlas_trip_count_is_taken_for_a_while_loop() -> None:
    def f(x):
        return jax.lax.while_loop(lambda s: s[0] < 12, lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[1]

    cost = facts(capture(f, (shape(8, 8),)))
    assert [loop.trips for loop in cost.loops] == [12]
    # Twelve products and counts, thirteen comparisons.
    assert cost.flops == 12 * (2 * 8**3 + 1) + 13
