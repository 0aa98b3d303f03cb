"""Ways around a reshard by replication, tried by XLA in a process of their own."""

import pytest

from jaxlens import progress
from jaxlens.ir.compile_log import Replication
from jaxlens.questions.sharding.measure import described, way_around

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

MESH = (("x", 4), ("y", 2))
# openxla/xla issue 15207, with one device's piece of f32[16,16,16]
ISSUE = Replication(
    "add.1",
    "f32[8,16,4]",
    "{devices=[2,1,4]<=[4,2]T(1,0)}",
    "{devices=[1,8,1]<=[8]}",
    mesh=MESH,
)


def test_a_replication_in_words_of_jax():
    one = described(ISSUE)
    assert one.whole == "f32[16,16,16]"
    assert (one.old_spec, one.new_spec) == ("P('y', None, 'x')", "P(None, ('x', 'y'), None)")


def test_the_order_of_axes_is_read():
    tiles = "{devices=[4,1,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"
    mesh = (("x", 2), ("y", 2), ("z", 2))
    one = described(Replication("c", "f32[16,64]", tiles, tiles, mesh=mesh))
    assert one.new_spec == "P(('y', 'x'), None)"


def test_without_a_mesh_nothing_is_claimed():
    one = Replication("c", "f32[8,16,4]", ISSUE.old, ISSUE.new)
    assert described(one) == one
    assert way_around(one) is None


def test_a_way_around_with_progress():
    assert progress.current() is None
    cure = way_around(described(ISSUE))
    assert cure is not None
    assert cure.text.startswith("reshard it first to P(")
    assert cure.tried == "compiled for 8 CPU devices: XLA does not replicate it then"
    assert "jaxlens tries ways to reshard it in another process" in progress._last


def test_a_reshard_that_xla_can_do_has_no_cure():
    one = Replication(
        "c",
        "f32[4,16]",
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
        "{devices=[1,4,2]<=[8] last_tile_dim_replicate}",
        mesh=MESH,
    )
    assert way_around(described(one)) is None
