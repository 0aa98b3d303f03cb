"""Shardings and replica groups, compared with NumPy carrying out the notation."""

import numpy as np
import pytest

from jaxlens.ir.hlo.shardings import axes, groups, partitions, parts, tiling, whole


def device_grid(shape, order=None):
    """Device numbers in a shape, transposed by `order`."""
    grid = np.arange(np.prod(shape)).reshape(shape)
    return grid.transpose(order) if order else grid


@pytest.mark.parametrize(
    ("text", "rank", "tiles", "grid"),
    [
        ("{devices=[4,2]<=[8]}", 2, (4, 2), device_grid((8, 1))),
        ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", 2, (4, 1), device_grid((4, 2))),
        (
            "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
            2,
            (1, 2),
            device_grid((4, 2), (1, 0)),
        ),
        (
            "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
            2,
            (2, 1),
            device_grid((4, 2), (1, 0)),
        ),
        ("{devices=[2,2]3,1,2,0}", 2, (2, 2), np.array([[3], [1], [2], [0]])),
        (
            "{devices=[8]<=[2,2,2]T(2,1,0)}",
            1,
            (8,),
            device_grid((2, 2, 2), (2, 1, 0)).reshape(8, 1),
        ),
        ("{devices=[2,1,4]<=[8] last_tile_dims={replicated}}", 2, (2, 1), device_grid((2, 4))),
        ("{mesh['x'=4,'y'=2], [{'x'}, {'y'}]}", 2, (4, 2), device_grid((8, 1))),
        ("{mesh['x'=4,'y'=2], [{'x'}, {}]}", 2, (4, 1), device_grid((4, 2))),
        ("{mesh['x'=4,'y'=2], [{}, {'y'}]}", 2, (1, 2), device_grid((4, 2), (1, 0))),
        (
            "{mesh['x'=4,'y'=2], [{'x':(2)2}, {'y'}]}",
            2,
            (2, 2),
            device_grid((2, 2, 2), (1, 2, 0)).reshape(4, 2),
        ),
        (
            "{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'y'}]}",
            1,
            (4,),
            device_grid((4, 2), (1, 0)).T,
        ),
        ("{mesh['x'=4,'y'=2], [{'y','x'}]}", 1, (8,), device_grid((4, 2), (1, 0)).reshape(8, 1)),
    ],
)
def test_tiles(text, rank, tiles, grid) -> None:
    found = tiling(text, rank, 8)
    assert found.tiles == tiles
    want = [tuple(sorted(row)) for row in grid.reshape(np.prod(tiles), -1).tolist()]
    assert list(found.holders) == want
    assert found.copies == len(want[0])


def test_whole_and_one() -> None:
    for text in ("{replicated}", "{mesh[], replicated}", "{mesh['x'=8], replicated}"):
        assert tiling(text, 2, 8) == whole(2, 8)
    assert tiling("{maximal device=3}", 1, 8).holders == ((3,),)


@pytest.mark.parametrize(
    "text",
    [
        "{manual}",
        "{unknown}",
        "",
        "{devices=[2]<=[8]}",
        "{devices=[3,2]<=[8]}",
        "{{replicated}}",
        "{devices=[1,8]<=[8] last_tile_dims={manual}}",
        "{mesh['x'=8], [{'z'}]}",
        "{mesh['x'=8], [{'x':(3)2}]}",
        "{devices=[99999999999]<=[99999999999]}",
    ],
)
def test_what_is_not_known_is_none(text) -> None:
    assert tiling(text, 1, 8) is None


def test_pieces_may_be_shorter_at_the_end() -> None:
    assert tiling("{devices=[4]<=[4]}", 1, 4).piece((10,)) == (3,)


def test_a_tuple_has_a_part_each() -> None:
    text = "{{replicated}, {devices=[2]<=[2]}, {mesh['x'=2], [{'x'}, {}]}}"
    assert parts(text) == ["{replicated}", "{devices=[2]<=[2]}", "{mesh['x'=2], [{'x'}, {}]}"]
    assert parts("{replicated}") == ["{replicated}"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{{0,2},{1,3}}", [(0, 2), (1, 3)]),
        ("[4,2]<=[8]", device_grid((4, 2)).tolist()),
        ("[2,4]<=[4,2]T(1,0)", device_grid((4, 2), (1, 0)).tolist()),
        ("mesh['a'=4,'b'=1,'c'=2] {'a'}", device_grid((4, 2), (1, 0)).tolist()),
        ("mesh['a'=4,'c'=2] {'c'}", device_grid((4, 2)).tolist()),
        ("mesh['a'=4,'c'=2] {'a','c'}", [list(range(8))]),
        # jax 0.10.2: devices in another order than the mesh; one by one where nothing else says it.
        (
            "mesh['axis_0'=2,'axis_1'=1,'axis_2'=4], device_ids=([4,2]T(1,0)) {'axis_2'}",
            device_grid((4, 2), (1, 0)).tolist(),
        ),
        (
            "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}",
            device_grid((4, 2), (1, 0)).reshape(2, 4).T.tolist(),
        ),
        (
            "mesh['a'=2,'b'=4], device_ids=([2,2,2]T(2,1,0)) {'b'}",
            device_grid((2, 2, 2), (2, 1, 0)).reshape(2, 4).tolist(),
        ),
        ("mesh['a'=2,'b'=4], device_ids=([8]) {'b'}", device_grid((2, 4)).tolist()),
        ("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}", [[3, 1], [2, 0]]),
        # jax 0.12: parts of axes, `(before)length`.
        ("mesh['x'=4,'y'=2] {'x':(1)2}", device_grid((2, 2, 2)).reshape(2, 4).T.tolist()),
        ("mesh['x'=4,'y'=2] {'x':(2)2}", device_grid((2, 2, 2), (0, 2, 1)).reshape(4, 2).tolist()),
        ("mesh['x'=4,'y'=2] {'x':(2)2,'y'}", device_grid((2, 4)).tolist()),
        ("mesh['x'=8] {'x':(2)2}", device_grid((2, 2, 2), (0, 2, 1)).reshape(4, 2).tolist()),
        ("{}", [list(range(8))]),
        ("", [list(range(8))]),
    ],
)
def test_groups(text, want) -> None:
    assert list(groups(text, 8)) == [tuple(group) for group in want]


@pytest.mark.parametrize(
    "text",
    [
        "@mesh {'x'}",
        "mesh['x'=4,'y'=2] {'z'}",
        "mesh['x'=4,'y'=2] {'x':(3)2}",
        "mesh['x'=4,'y'=2], device_ids=(0,1) {'x'}",
        "mesh['x'=4,'y'=2], device_ids=([4,2]T(1,1)) {'x'}",
        "mesh['x'=4,'y'=2], other=(1) {'x'}",
        "mesh['x'=99999,'y'=99999] {'x'}",
        "[4,2]<=[9]",
        "[4,2]<=[8]T(1)",
        "{{0,1}",
        "{{0,1},{2,3}} more",
        "groups",
    ],
)
def test_groups_of_a_form_that_is_not_known_are_none(text) -> None:
    assert groups(text, 8) is None


def test_the_mesh_of_a_program() -> None:
    text = 'module {\n  sdy.mesh @mesh = <["data"=4, "model"=2]> {x = 1}\n}'
    assert axes(text) == (("data", 4), ("model", 2))
    assert axes("module {}") == ()
    empty = "module {\n  sdy.mesh @empty_mesh = <[]> {x = 1}\n"
    assert axes(empty) == ()
    assert axes(f'{empty}  sdy.mesh @mesh = <["data"=4]>\n}}') == (("data", 4),)
    assert partitions("module @f attributes {mhlo.num_partitions = 8 : i32} {") == 8
    assert partitions("module {}") == 1
