"""XLA's warnings of an involuntary full rematerialization, of jaxlib 0.10.2 and older ones."""

from jaxlens.ir.compile_log import Replication
from jaxlens.questions.session.measure import described, replications
from tests.support.paths import TEXTS

NOW = (
    "W1124 14:06:00.32 9201 spmd_partitioner.cc:656] [SPMD] Involuntary full rematerialization. "
    "The compiler cannot go from sharding {devices=[1,2,4]<=[8] last_tile_dim_replicate} to "
    "{devices=[4,1,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate} efficiently for HLO operation "
    "%sharding_constraint.2 = f32[64,32]{1,0} copy(%sin.1), "
    "sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}, "
    'metadata={op_name="jit(f)/sharding_constraint" stack_frame_id=2}. As the last resort, SPMD '
    "will replicate the tensor and then partition it.\n"
)
BEFORE = (  # openxla/xla issue 15207, and Enzyme-JAX issue 822
    "E0531 10:54:04.8 26 spmd_partitioner.cc:569] [spmd] Involuntary full rematerialization. "
    "The compiler was not able to go from sharding {devices=[2,1,4]<=[4,2]T(1,0)} to "
    "{devices=[1,8,1]<=[8]} without doing a full rematerialization of the tensor for HLO "
    "operation: %pad = f64[96]{0} pad(%broadcast.690, %constant), padding=8_7, "
    "sharding={devices=[1,1,2,2]<=[4] last_tile_dim_replicate}. You probably want to enrich it.\n"
)
PROGRAM = (TEXTS / "replicated.hlo.txt").read_text()
MESH = (("x", 4), ("y", 2))
# openxla/xla issue 15207, with one device's piece of f32[16,16,16]
ISSUE = Replication(
    "add.1",
    "f32[8,16,4]",
    "{devices=[2,1,4]<=[4,2]T(1,0)}",
    "{devices=[1,8,1]<=[8]}",
    mesh=MESH,
)


def test_the_warning_of_today():
    (one,) = replications(f"before\n{NOW}after\n{NOW}", PROGRAM)
    assert (one.instruction, one.piece) == ("sharding_constraint.2", "f32[64,32]")
    assert one.old == "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"
    assert one.new == "{devices=[4,1,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"
    assert [(line.file, line.line) for line in one.lines] == [
        ("replicated.py", 10),
        ("replicated.py", 15),
    ]


def test_the_warning_of_before():
    (one,) = replications(BEFORE, PROGRAM)
    assert (one.instruction, one.piece) == ("pad", "f64[96]")
    assert (one.old, one.new) == ("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}")
    assert one.lines == ()


def test_two_warnings_and_other_text():
    assert len(list(replications(NOW + "loss 0.1\n" + BEFORE, PROGRAM))) == 2
    assert list(replications("Involuntary full rematerialization. cut", PROGRAM)) == []
    assert list(replications("", "")) == []


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
