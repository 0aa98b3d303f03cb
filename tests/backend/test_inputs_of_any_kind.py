"""All three views work for inputs of every kind that JAX has, and for no inputs."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

pytestmark = pytest.mark.backend

INPUTS = {
    "complex": (jnp.ones(3, jnp.complex64), "c64[3]"),
    "int4": (jnp.ones(3, jnp.int4), "i4[3]"),
    "uint2": (jnp.ones(3, jnp.uint2), "u2[3]"),
    "float8": (jnp.ones(3, jnp.float8_e4m3fn), "f8e4m3fn[3]"),
    "bfloat16": (jnp.ones(3, jnp.bfloat16), "bf16[3]"),
    "bool": (jnp.ones(3, bool), "bool[3]"),
    "float0": (np.zeros(3, jax.dtypes.float0), "float0[3]"),
    "empty": (jnp.ones((0, 3)), "f32[0,3]"),
    "numpy float64": (np.zeros(3), "f32[3]"),
    "numpy scalar": (np.int8(3), "i8[]"),
    "number": (3, "i32[]"),
    "shape": (jax.ShapeDtypeStruct((3,), jnp.float32), "f32[3]"),
}


@pytest.mark.parametrize(("value", "kind"), INPUTS.values(), ids=INPUTS)
def test_one_input(value, kind):
    cap = jaxlens.capture(lambda v: (v, v), value)
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile):
        assert str(verb(cap)).startswith(f"<lambda>(v) with v {kind} on cpu, jitted")
        assert verb(cap).html()


def test_key_arrays():
    def draw(key):
        return jax.random.normal(key, (3,)), key

    cap = jaxlens.capture(draw, jax.random.split(jax.random.key(0), 2)[0])
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile):
        assert str(verb(cap)).startswith("draw(key) with key key<fry>[] on cpu, jitted")
    assert jaxlens.compile(cap, run=1).text(times=True)


@pytest.mark.parametrize("result", [None, (), 3.0, np.ones(2)])
def test_no_inputs(result):
    cap = jaxlens.capture(lambda: result)
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile):
        assert str(verb(cap)).startswith("<lambda>() without array inputs on cpu, jitted")
        assert verb(cap).html()
    assert "cannot run" not in str(jaxlens.compile(cap))


def test_ten_thousand_leaves_are_one_readable_line():
    tree = {f"k{i}": {"a": np.ones(2, np.float32)} for i in range(10_000)}
    text = str(jaxlens.jaxpr(lambda tree, x: x, tree, 1.0))
    assert text.startswith("<lambda>(tree, x) with tree (10,000 arrays, 80 kB), x f32[] on cpu")
    assert len(text) < 20_000


def nest(x, n):
    return jax.jit(lambda y: nest(y, n - 1))(x) * 2 if n else x


@pytest.fixture
def deep():
    """JAX's own tracing recurses some nine frames a level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("deep")
def test_two_hundred_nested_levels_take_no_recursion_of_ours():
    cap = jaxlens.capture(lambda x: nest(x, 200), 1.0)
    assert cap.jaxpr.text
    assert sum(1 for _ in cap.jaxpr.module.nodes()) == 400
    assert len(cap.stablehlo.module.regions) == 201
    view = jaxlens.jaxpr(cap)
    assert view.text(full=True)
    assert view.html()


@pytest.mark.usefixtures("deep")
def test_a_hundred_nested_levels_go_through_every_view():
    # With Python 3.11 and jax 0.10.2, bare JAX ends the process where 200 levels are compiled.
    cap = jaxlens.capture(lambda x: nest(x, 100), 1.0)
    assert cap.passes
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile):
        assert verb(cap).text(full=True)
        assert verb(cap).html()
