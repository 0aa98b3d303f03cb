"""Captured arrays and their names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.stages.driver import capture

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

GLOBAL = np.arange(6, dtype=np.float32).reshape(2, 3)


def facts(taken):
    return [(c.name, str(c.type), c.bytes, str(c.span)) for c in taken.constants]


def line(marker):
    with open(__file__) as file:
        return next(n for n, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}"))


def test_names_sizes_and_lines():
    params = {"w": [jnp.ones((3, 4))], "unused": jnp.ones(9)}

    def f(x):
        x = x + GLOBAL  # reads GLOBAL
        return x @ params["w"][0]  # reads params

    assert facts(capture(f, (jnp.ones((2, 3)),))) == [
        ("GLOBAL", "f32[2,3]", 24, f"test_captured_arrays.py:{line('reads GLOBAL')}"),
        ("params['w'][0]", "f32[3,4]", 48, f"test_captured_arrays.py:{line('reads params')}"),
    ]


def test_a_constant_inside_nested_bodies_is_found_once():
    table = jnp.arange(5.0)
    inner = jax.jit(lambda x: x * table)

    def f(x):
        total = jax.lax.scan(lambda c, t: (c + inner(c) * t, None), x, table)[0]
        return inner(total)

    found = [c for c in capture(f, (jnp.ones(5),)).constants if c.bytes == 20]
    assert len(found) == 1
    assert str(found[0].type) == "f32[5]"


def test_a_constant_without_a_name_says_so():
    def f(x):
        return x * np.random.default_rng(0).random(3, dtype=np.float32)

    assert [c.name for c in capture(f, (jnp.ones(3),)).constants] == ["constant 0"]


def test_no_constants():
    assert capture(lambda x: x * 2.0, (jnp.ones(3),)).constants == ()


def test_constants_stay_in_the_program():
    table = np.arange(1000, dtype=np.float32)
    taken = capture(lambda x: x * table, (jnp.ones(1000),))
    assert "stablehlo.constant dense_resource<__elided__>" in taken.stablehlo.text
    assert "constant({...})" in taken.hlo.text
    program = taken.hlo.text.partition("ENTRY")[2]  # above it are the names of this machine's files
    assert 0 < len(program) < 1_000
    assert taken.driver.lowered is not None
    assert [t.note for t in taken.times if t.step == "lower"] == [""]
