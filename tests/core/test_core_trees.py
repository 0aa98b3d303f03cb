"""Pytrees: the same leaves in the same order as JAX's, equal descriptions of equal nestings."""

import pickle
from collections import namedtuple
from dataclasses import dataclass

import jax
import pytest

from jaxlens import core
from jaxlens.core.transforms.trees import paths, prefix_leaves

Point = namedtuple("Point", "x y")

TREES = [
    1,
    None,
    (),
    {},
    [1, (2, None), {"b": 3, "a": [4]}],
    {"z": 1, "a": {"y": 2, "b": 3}},
    {3: 1, 1: 2},
    Point(1, (2, 3)),
    [[[[1]]], Point(x={"k": 2}, y=None)],
]


@core.register_dataclass
@dataclass
class Layer:
    w: object
    b: object


class Pair:
    def __init__(self, left, right, label):
        self.left, self.right, self.label = left, right, label


core.register_pytree_node(
    Pair, lambda p: ([p.left, p.right], p.label), lambda label, xs: Pair(*xs, label)
)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_leaves_are_jax_s_and_go_back(tree):
    leaves, treedef = core.tree_flatten(tree)
    assert leaves == jax.tree.leaves(tree)
    back = core.tree_unflatten(treedef, leaves)
    assert back == tree
    assert type(back) is type(tree)
    assert treedef.num_leaves == len(leaves)
    names = ["".join(path) for path in paths(treedef)]
    theirs = jax.tree_util.tree_flatten_with_path(tree)[0]
    assert names == [jax.tree_util.keystr(path) for path, _ in theirs]


def test_equal_nestings_are_equal():
    one = core.tree_structure({"b": [1, 2], "a": (3,)})
    assert one == core.tree_structure({"a": ("x",), "b": ["y", 5.0]})
    assert one != core.tree_structure({"b": (1, 2), "a": (3,)})
    assert one == pickle.loads(pickle.dumps(one))
    assert str(one) == "PyTreeDef({'a': (*,), 'b': [*, *]})"


def test_keys_that_compare_equal_are_not_mixed_up():
    for key in (1, True, 1.0):
        (found,) = core.tree_map(lambda x: x, {key: 0})
        assert type(found) is type(key)
    assert len({core.tree_structure({key: 0}) for key in (1, True, 1.0)}) == 3


def test_classes_of_the_user():
    pair = Pair(1, {"k": [2, 3]}, "p")
    leaves, treedef = core.tree_flatten([pair, Layer(4, (5, None))])
    assert leaves == [1, 2, 3, 4, 5]
    assert paths(treedef)[3:] == [("[1]", ".w"), ("[1]", ".b", "[0]")]
    back, layer = treedef.unflatten("abcde")
    assert (back.left, back.right, back.label, layer) == (
        "a",
        {"k": ["b", "c"]},
        "p",
        Layer("d", ("e", None)),
    )
    assert core.tree_structure(pair) != core.tree_structure(Pair(1, {"k": [2, 3]}, "q"))
    with pytest.raises(ValueError, match="Pair is registered"):
        core.register_pytree_node(Pair, lambda p: ([], None), lambda _, xs: Pair(*xs))


def test_a_class_that_was_seen_as_a_leaf_can_be_registered():
    class Late:
        pass

    late = Late()
    assert core.tree_leaves((late, [late])) == [late, late]
    core.register_pytree_node(Late, lambda _: ((), None), lambda _, xs: Late())
    assert core.tree_leaves((late, [late])) == []


def test_static_fields_are_compared():
    @dataclass
    class Scaled:
        x: object
        by: object

    core.register_dataclass(Scaled, meta_fields=["by"])
    doubled = core.tree_map(lambda x: 2 * x, Scaled(3, 1.0))
    assert doubled == Scaled(6, 1.0)
    assert type(core.tree_map(lambda x: x, Scaled(3, 1)).by) is int
    with pytest.raises(TypeError, match=r"Scaled keeps .* must be hashable, got \(\[1\],\)"):
        core.tree_flatten(Scaled(3, [1]))


def test_a_container_of_jax_s_is_one_of_the_core_s():
    @jax.tree_util.register_dataclass
    @dataclass
    class OfJax:
        w: object
        b: object

    gradient = core.jit(core.grad(lambda p: p.w * p.b))(OfJax(3.0, 2.0))
    assert (float(gradient.w), float(gradient.b)) == (2.0, 3.0)
    assert paths(core.tree_structure([OfJax(4, (5, None))])) == [
        ("[0]", ".w"),
        ("[0]", ".b", "[0]"),
    ]


def test_is_leaf():
    tree = {"a": (1, 2), "b": [3, (4,)]}
    stop = lambda x: isinstance(x, tuple)  # noqa: E731
    assert core.tree_leaves(tree, stop) == jax.tree.leaves(tree, is_leaf=stop)
    assert core.tree_map(len, tree["b"][1:], is_leaf=stop) == [1]


def test_map_over_several_trees():
    a, b = {"w": 1, "b": [2]}, {"w": 10, "b": [20]}
    assert core.tree_map(lambda *xs: sum(xs), a, b, b) == {"w": 21, "b": [42]}
    assert core.tree_map(lambda x, y: (x, y), (1,), ({"more": 2},)) == ((1, {"more": 2}),)
    with pytest.raises(ValueError, match=r"tree_map: expected the containers .*\[\*\].*\(\*,\)"):
        core.tree_map(lambda x, y: x, a, {"w": 1, "b": (2,)})
    with pytest.raises(ValueError, match="expected 2 leaves"):
        core.tree_structure(a).unflatten([1])


def test_a_prefix_stands_for_all_below():
    treedef = core.tree_structure(({"a": 1, "b": 2}, 3, (4, 5)))
    assert prefix_leaves((0, None, (1, 2)), treedef, "in_axes") == [0, 0, None, 1, 2]
    with pytest.raises(ValueError, match=r"in_axes: \(0, 1\)"):
        prefix_leaves((0, 1), treedef, "in_axes")
    with pytest.raises(ValueError, match=r"in_axes: \(0, \(1,\), 2\) does not fit the containers"):
        prefix_leaves((0, (1,), 2), treedef, "in_axes")


def test_keys_that_cannot_be_sorted_are_named():
    with pytest.raises(ValueError, match=r"keys that can be sorted, got \[1, 'a'\]"):
        core.tree_flatten({1: 0, "a": 0})
