"""A look at a program with a cyclic value does not reduce the available recursion depth.

What a process can still recurse is measured after each look, in a process of its own: jaxlib's
flattening of a cyclic container takes the levels for good, and nothing raises at the time.
"""

import json

import jax
import jax.numpy as jnp
import pytest

from jaxlens.call.arguments import pytrees
from jaxlens.keys.value_diff import same
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = jnp.ones(3)
_SEES = ("jaxpr", "cost", "captured", "key", "recompiles", "values", "global", "holds")
_TREES = ("cyclic_dict", "cyclic_list", "cyclic_tree", "deep_list", "deep_dict", "deep_tree")


@pytest.fixture(scope="module")
def looks():
    return json.loads(run_python("from tests.support.cyclic_looks import main; main()"))


def test_no_look_costs_a_level_of_recursion(looks):
    assert len(looks) == 8 * 13
    assert [name for name, look in looks.items() if look["python"] or not look["c"]] == []


def test_a_closure_over_it_is_looked_at_as_any_other(looks):
    for name, look in looks.items():
        if name.partition(", ")[2] in _SEES:
            assert "Error" not in look["ended"], name
    assert "node['w'] f32[3]" not in looks["cyclic_dict, jaxpr"]["ended"]  # its name is value's
    assert "value['w'] f32[3]" in looks["cyclic_dict, jaxpr"]["ended"]
    assert "value[0] f32[3]" in looks["cyclic_list, jaxpr"]["ended"]
    assert "value.w f32[3]" in looks["cyclic_tree, jaxpr"]["ended"]
    assert "value.w f32[3]" in looks["cyclic_object, jaxpr"]["ended"]


def test_as_an_argument_or_a_result_it_is_refused_in_one_line(looks):
    for kind in _TREES:
        for name in ("argument", "argument under grad", "result"):
            ended = str(looks[f"{kind}, {name}"]["ended"])
            assert ended.startswith("OptionError: expected containers"), ended
            assert "nest at most" in ended
            assert "jax.jit cannot flatten" in ended
            assert "\n" not in ended
            assert len(ended) < 300


def test_what_is_shared_is_no_cycle_and_is_walked_once():
    shared = {"w": X}
    for _ in range(60):  # 2 to the 60 leaves for a walk that does not know where it has been
        shared = {"a": shared, "b": shared}
    assert [path for path, _ in pytrees.leaves(shared)] == ["['a']" * 60 + "['w']"]
    pytrees.check("p", shared)
    twice = [X, X]
    pytrees.check("p", {"a": twice, "b": twice})


def test_leaves_are_those_of_jax_in_its_words():
    tree = {"a": [X, (1, None, "s")], "c": {2: X}}
    theirs = jax.tree_util.tree_flatten_with_path(tree)[0]
    expected = [(jax.tree_util.keystr(path), leaf) for path, leaf in theirs]
    assert list(pytrees.leaves(tree)) == expected


def test_containers_that_hold_themselves_are_compared():
    def ring(end):
        items = [1, end]
        items.append(items)
        return items

    assert same(ring(2), ring(2))
    assert not same(ring(2), ring(3))
    left, right = {"k": 1}, {"k": 1}
    left["me"], right["me"] = left, right
    assert same(left, right)


def test_a_function_that_wraps_itself_ends_as_it_does_in_jax(looks):
    assert "wrapper loop" in looks["cyclic_dict, wrapped"]["ended"]
