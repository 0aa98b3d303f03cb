"""Recompiles in which several parts of a key changed, and what their cures say of the others."""

import textwrap

import jax
import numpy as np
import pytest

import jaxlens
from tests.support.jax_events import logged
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


def test_a_new_function_object_beside_other_changes():
    def make():
        return jax.jit(lambda x, n: x[0] * n, static_argnames="n")

    with jaxlens.recompiles() as log:
        make()(np.ones(3, np.float32), n=1)
        make()(np.ones(4, np.float32), n=2)
    words = " ".join(str(log).split())
    assert ", and n and x changed too." in words
    assert "and call that object (the nearest earlier key differs in n and x too)" in words


MESHES = """
    import jax, numpy as np, jaxlens
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    def make(*shape):
        mesh = Mesh(np.reshape(jax.devices(), shape), ("x", "y"))
        where = [NamedSharding(mesh, P(*spec)) for spec in ((), ("x",), ("y",))] * 2
        state = jax.device_put([np.ones(4 + 4 * i) for i in range(6)], where)
        return jax.jit(lambda s: s[0].sum(), in_shardings=(where,)), state
    with jaxlens.recompiles() as log:
        for shape in ((4, 2), (2, 4)):
            step, state = make(*shape)
            step(state)
    print(log.log.compiles[-1].reason)
"""


def test_all_arrays_on_another_mesh_are_one_change():
    flags = "--xla_force_host_platform_device_count=8"
    said = run_python(textwrap.dedent(MESHES), XLA_FLAGS=flags)
    moved = "on mesh x=2, y=4, was on mesh x=4, y=2"
    _, *reasons = said.strip().split("; ")
    assert reasons == [f"jit's in_shardings[0] (6 leaves): {moved}", f"6 arrays of s: {moved}"]


@jax.tree_util.register_pytree_node_class
class Tagged:
    def __init__(self, array, tag):
        self.array, self.tag = array, tag

    def tree_flatten(self):
        return (self.array,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(*children, tag)


def test_what_a_class_keeps_without_names():
    f = jax.jit(lambda p: p.array * 2)
    log = logged(lambda: f(Tagged(np.ones(3), "a")), lambda: f(Tagged(np.ones(3), "b")))
    assert "because the aux data of p is kept in the pytree and its value changed: 'a', 'b'" in (
        log.findings[0].text
    )
    assert log.cures[0].text.startswith("give the aux data of p one value at every call")


def test_padding_names_what_changed_in_an_earlier_call_too():
    f = jax.jit(lambda x, y: x.sum() + y.sum())
    with jaxlens.recompiles() as log:
        for sizes in ((3, 1000), (5, 1001), (6, 1002), (7, 1002)):
            f(*(np.ones(size, np.float32) for size in sizes))
    assert log.cures[0].text.startswith("pad x and y to a few common shapes")
