"""Pytrees: JAX's, so that its containers are the core's; paths, and trees that stop early."""

from collections import namedtuple
from dataclasses import dataclass

import jax
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.transforms.trees import leaves_of, paths, prefix_leaves

Point = namedtuple("Point", "x y")


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    w: object
    b: object


def test_a_container_of_jax_s_is_one_of_the_core_s() -> None:
    gradient = core.jit(core.grad(lambda layer: cnp.sin(layer.w) * layer.b))(Layer(0.0, 2.0))
    assert (float(gradient.w), float(gradient.b)) == (2.0, 0.0)
    assert paths(core.tree_structure([Point(1, 0), Layer(4, (5, None))])) == [
        ("[0]", ".x"),
        ("[0]", ".y"),
        ("[1]", ".w"),
        ("[1]", ".b", "[0]"),
    ]


def test_a_prefix_stands_for_all_below() -> None:
    treedef = core.tree_structure(({"a": 1, "b": 2}, 3, (4, 5)))
    assert prefix_leaves((0, None, (1, 2)), treedef, "in_axes") == [0, 0, None, 1, 2]
    with pytest.raises(ValueError, match=r"in_axes: \(0, 1\)"):
        prefix_leaves((0, 1), treedef, "in_axes")
    with pytest.raises(ValueError, match=r"in_axes: \(0, \(1,\), 2\) does not fit the containers"):
        prefix_leaves((0, (1,), 2), treedef, "in_axes")


def test_other_containers_are_named() -> None:
    treedef = core.tree_structure({"w": 1, "b": [2]})
    with pytest.raises(TypeError, match=r"the tangents: expected the containers .*\[\*\].*\(\*,\)"):
        leaves_of(treedef, {"w": 1, "b": (2,)}, "the tangents", TypeError)
