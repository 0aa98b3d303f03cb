"""Every result as compiled is compared with that op by op, in its own type."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlens
from jaxlens.questions.numerics.measure import run
from jaxlens.questions.numerics.measure.run import difference
from jaxlens.questions.numerics.report import report
from tests.questions.numerics import lossy

INF, NAN = float("inf"), float("nan")


def floats(dtype, *values):
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("compiled", "own", "unequal", "ulps"),
    [
        (floats("float32", 1.0, 2.0), floats("float32", 1.0, 2.0), 0, 0),
        (floats("float32", 1.0, 1.00000012), floats("float32", 1.0, 1.0), 1, 1),
        (np.float32([8388618.0]), np.float32([8388608.0]), 1, 10),
        (np.float32([2.0**24 + 20]), np.float32([2.0**24 - 10]), 1, 20),  # over a power of 2
        (floats("float32", 1e-45), floats("float32", -1e-45), 1, 2),
        (floats("float32", -0.0), floats("float32", 0.0), 1, 0),
        (floats("float32", NAN), floats("float32", NAN), 0, 0),
        (floats("float32", NAN, 1), floats("float32", 1, 1), 1, INF),
        (floats("float32", INF), floats("float32", -INF), 1, INF),
        (floats("float64", 0.1 + 0.2), floats("float64", 0.3), 1, 1),
        (floats("float16", 2050.0), floats("float16", 2048.0), 1, 1),
        (floats(ml_dtypes.bfloat16, 260.0), floats(ml_dtypes.bfloat16, 256.0), 1, 2),
        (floats(ml_dtypes.float8_e4m3fn, 1.25), floats(ml_dtypes.float8_e4m3fn, -1), 1, 114),
        (floats("complex64", 1 + 1j), floats("complex64", 1 + 1.0000002j), 1, 2),
        (floats("complex128", 1, 2, 3), floats("complex128", 1, 2, 4j), 1, None),
        (np.int64([2**60 + 1]), np.int64([2**60]), 1, None),
        (np.uint64([2**64 - 1, 5]), np.uint64([2**64 - 2, 5]), 1, None),
        (np.array([True, False]), np.array([True, True]), 1, None),
        (floats(ml_dtypes.int4, 3, -3), floats(ml_dtypes.int4, 3, 3), 1, None),
        (jax.random.key(1), jax.random.key(0), 1, None),
        (np.zeros((0, 3), "float32"), np.zeros((0, 3), "float32"), 0, 0),
    ],
)
def test_arrays_are_compared_in_their_own_type(compiled, own, unequal, ulps):
    found = difference(0, compiled, own)
    assert (found.unequal > 0) == (unequal > 0)
    assert found.dtype == str(own.dtype)
    assert (found.ulps is None) == (not jnp.issubdtype(own.dtype, np.inexact))
    if ulps is not None:
        assert (found.unequal, found.ulps) == (unequal, ulps)


def shifted(x):
    b = x + 1
    return b.at[1:].set(b[:-1]).reshape((1, *b.shape))


def affine(x):
    return x * 1.1 + 0.3


def several(x):
    return {"same": x, "which": affine(x) > 0.85, "near": affine(x)}


RAMP = np.arange(128).reshape(8, 16)
CASES = {
    "int32": (shifted, RAMP.astype("int32")),
    "int8": (shifted, RAMP.astype("int8")),
    "wide integers": (shifted, RAMP.astype("int64") + 2**60),
    "uint64": (shifted, RAMP.astype("uint64") + 2**63),
    "float64": (affine, np.linspace(0, 1, 101)),
    "complex128": (affine, np.linspace(0, 1, 101) * (1 + 1j)),
    "float32": (lambda x: jnp.exp(jnp.sin(x) * 3) * 1.1 + 0.3, np.linspace(0, 5, 101, dtype="f")),
    "several": (several, np.linspace(0, 1, 101)),
    "squares": lossy.difference_of_squares()[:2],
}


@pytest.mark.parametrize(("f", "args"), CASES.values(), ids=CASES)
def test_jit_differs_from_eager_in_as_many_elements_as_it_says(f, args):
    args = args if isinstance(args, tuple) else (args,)
    with jax.enable_x64(True):
        args = tuple(map(jnp.asarray, args))
        eager, compiled = (jax.tree.leaves(g(*args)) for g in (f, jax.jit(f)))
        facts = jaxlens.numerics(f, *args).facts
    counts = [
        int((np.asarray(a) != np.asarray(b)).sum()) for a, b in zip(eager, compiled, strict=True)
    ]
    assert [one.unequal for one in facts.run.differences] == counts
    (text,) = (one.text for one in report(facts).findings if one.text.startswith("Compiled"))
    assert ("bit for bit" in text) == (not any(counts))
    if any(counts):
        assert re.search(r"differs (by|from)", text)
        assert facts.run.differs is not None
        differ = [
            f"`{leaf.name}`" if len(counts) > 1 else "the result"
            for leaf, n in zip(facts.subject().outputs, counts, strict=True)
            if n
        ]
        assert re.match(r"Compiled, (.+?) \(", text)[1] in differ


def test_the_bound_of_the_error_covers_both_runs():
    x = np.linspace(0, 5, 101, dtype=np.float32)
    facts = jaxlens.numerics(lambda x: jnp.exp(jnp.sin(x) * 3) * 1.1 + 0.3, x).facts
    (text,) = (one.text for one in report(facts).findings if "line loses" in one.text)
    bound = int(re.search(r"is at most (\d+) ulps? of float32", text)[1])
    (row,) = facts.run.results
    assert bound - 1 < max(row.total, row.compiled) <= bound
    assert "op by op and compiled" in text


def test_the_bound_is_of_the_run_with_the_larger_error(monkeypatch):
    known = jaxlens.numerics(jnp.exp, np.float32(1.5)).facts.run
    worse = replace(known, results=(replace(known.results[0], compiled=50.0),))
    monkeypatch.setattr(run, "run_and_compare", lambda live: worse)
    facts = jaxlens.numerics(jnp.exp, np.float32(1.5)).facts
    assert facts.bound == (50.0, "float32")
    assert facts.worst == (known.results[0].total, "float32")
