"""The cache key of a call, computed before it, compared with what JAX then does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((3, 4), np.float32)
P = {"w": np.ones((4, 2), np.float32)}


@pytest.fixture
def step():
    @functools.partial(jax.jit, static_argnames="n")
    def step(params, x, n=1):
        return (x @ params["w"]).sum() * n

    return step


def rows(answer):
    return {part.name: (part.kind, part.text) for part in answer.parts}


class Node:
    """A pytree that names none of its leaves."""

    def __init__(self, leaves, size):
        self.leaves, self.size = leaves, size


jax.tree_util.register_pytree_node(Node, lambda n: (n.leaves, n.size), lambda n, c: Node(c, n))


def test_a_class_without_field_names_is_named(step):
    shown = str(jaxlens.key(jax.jit(lambda p: p), Node((X, X), 3)))
    assert "p leaf 1 " in shown
    assert "PyTreeDef(Node(3, [*, *]))" in shown
    assert "flat index" not in shown


def test_the_parts_of_a_key(step):
    answer = jaxlens.key(step, P, jnp.asarray(X), n=2)
    assert rows(answer)["params['w']"] == ("input", "f32[4,2]")
    assert rows(answer)["n"] == ("static", "2")
    assert rows(answer)["params"] == ("structure", "PyTreeDef({'w': *})")
    places = {part.name: (part.holder, part.place) for part in answer.parts}
    assert places["params['w']"] == ("numpy.ndarray", "")
    assert places["x"] == ("jax.Array", "not committed to a device")
    assert "static value" in str(answer)
    assert "<table" in answer.html()


def test_hit_and_miss_are_what_the_call_does(step):
    assert (jaxlens.key(step, P, X).hit, jaxlens.key(step, P, X).layer) == (False, "trace")
    step(P, X)
    for args in ((P, X), (P, X[:2]), (P, X.astype(np.float16)), (P, jnp.asarray(X))):
        key = jaxlens.key(step, *args)
        with jaxlens.recompiles() as log:
            step(*args)
        assert key.hit is (log.compiles == 0)
        assert jaxlens.key(step, *args).hit is True


def test_shapes_alone_will_do(step):
    shape = jax.ShapeDtypeStruct
    step(P, X)
    abstract = {"w": shape((4, 2), np.float32)}
    assert jaxlens.key(step, abstract, shape((3, 4), np.float32)).hit is True
    miss = jaxlens.key(step, abstract, shape((9, 4), np.float32))
    assert miss.reasons == ("x: f32[9,4], was f32[3,4]",)


def test_asking_makes_no_entry(step):
    with jaxlens.recompiles() as log:
        jaxlens.key(step, P, X)
    assert log.log.calls == ()
    assert step._cache_size() == 0
    assert jaxlens.key(step, P, X).reasons == ("never called before",)


def test_a_function_that_is_not_jitted_has_the_key_of_its_jit():
    answer = jaxlens.key(lambda x: x, 3)
    assert answer.hit is None
    assert rows(answer) == {"x": ("input", "weak i32[]")}
