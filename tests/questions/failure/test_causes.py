"""Errors whose message names the cause: each program of `causes.txt` fails, and runs when cured.

A case is a program, a line with the words that are to be said of it, and the program with the cures
applied.
"""

import linecache
from functools import cache
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import jaxlens
from jaxlens.questions.failure.measure import causes

pytestmark = pytest.mark.reads_jax

CASES = [case.strip() for case in Path(__file__).with_name("causes.txt").read_text().split("\n\n")]


def namespace():
    """The names of a program, a custom_vjp function without rules among them."""

    @jax.custom_vjp
    def product(x, y):
        return x * y

    explicit = (AxisType.Explicit,)
    return {
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "lax": lax,
        "checkify": checkify,
        "product": product,
        "X": jnp.arange(3.0),
        "N": jnp.arange(3),
        "P": PartitionSpec,
        "NamedSharding": NamedSharding,
        "AUTO": AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,)),
        "MESH": AbstractMesh((4,), ("i",), axis_types=explicit),
        "HALF": AbstractMesh((2,), ("i",), axis_types=explicit),
        "forward": lambda x, y: (x * y, (x, y)),
        "exported": lambda f, shape: jax.export.export(f)(jax.ShapeDtypeStruct(shape, "float32")),
    }


def run(text, name, names):
    """Runs a program whose lines a traceback can show."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), names)


@cache
def failed(program):
    """The error of a program, and its names."""
    names = namespace()
    try:
        run(program, "<cell of a test>", names)
    except Exception as error:
        return error, names
    raise AssertionError(f"it runs: {program}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0][:60])
def test_the_words_and_the_cure(case):
    program, _, rest = case.partition("\n---- ")
    words, _, cured = rest.partition("\n")
    error, names = failed(program)
    said = " ".join(str(jaxlens.explain(error)).split())
    missing = [word for word in words.split(" | ") if word not in said]
    assert not missing, (said, error)
    run(cured, "<cell of a cure>", names)


def test_each_row_has_a_case():
    used = [causes.row_of(failed(case.partition("\n---- ")[0])[0], False)[0] for case in CASES]
    assert not [row.pattern for row in causes.rows() if not row.kind and row not in used]


def test_a_string_among_the_results_is_no_fault_of_a_function_that_is_not_jitted():
    def named(x):
        return {"name": "a", "y": x * 2}

    assert jaxlens.capture(named, 1.0).jaxpr.module.nodes()
    with pytest.raises(TypeError, match="returned a value of type <class 'str'>"):
        jaxlens.capture(jax.jit(named), 1.0).jaxpr


def test_a_cure_names_what_the_user_can_change():
    names = namespace()
    said = str(jaxlens.explain(failed("jax.jit(lambda f, x: f(x))(jnp.sin, X)")[0]))
    assert "static_argnames='f'" in said
    assert "class PjitFunction" not in said
    program = "x = N\nlax.scan(lambda c, x: c + x, 0.0, X)"
    said = str(jaxlens.explain(failed(program)[0]))
    assert "X: f32[3]. [" in said  # not x: the lambda's is another value
    assert jaxlens.capture(jnp.add, names["X"], names["X"]).program.jit == ""
