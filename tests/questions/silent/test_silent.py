"""Planted faults are found at their line; clean programs have none; JAX itself is the judge."""

import inspect
from contextlib import nullcontext
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.errors import UnavailableError
from tests.questions.silent import clean, faulty
from tests.support.paths import marked_line

X = np.arange(4, dtype=np.float32)
NAMED = {"ids": lambda value: getattr(value, "__name__", None)}


@pytest.mark.parametrize("key", [clean.KEY, clean.RAW], ids=["typed", "raw"])
@pytest.mark.parametrize("make", faulty.KEYS, **NAMED)
def test_a_key_used_twice_is_found_at_its_line(make, key):
    f, args, kind, words = make()
    answer = jaxlens.silent(f, key, *args)
    (fault,) = answer.faults
    assert (fault.kind, fault.line) == (kind, marked_line(make))
    assert words in fault.sentence
    assert answer.findings[0].text == fault.sentence


@pytest.mark.parametrize("make", faulty.OTHERS, **NAMED)
def test_a_planted_fault_is_found_at_its_line(make):
    f, args, kind, words = make()
    (fault,) = jaxlens.silent(f, *args).faults
    assert (fault.kind, fault.line) == (kind, marked_line(make))
    assert words in fault.sentence


@pytest.mark.reads_jax
@pytest.mark.parametrize(
    ("kind", "words", "f"),
    [("index", *pair) for pair in faulty.INDEX.items()]
    + [("size", *pair) for pair in faulty.SIZE.items()],
)
def test_what_jax_does_with_an_index_is_said(kind, words, f):
    faults = jaxlens.silent(f, faulty.TEN, faulty.OUTSIDE).faults
    (sentence,) = (fault.sentence for fault in faults if fault.kind == kind)
    assert words in sentence


@pytest.mark.parametrize("key", [clean.KEY, clean.RAW], ids=["typed", "raw"])
@pytest.mark.parametrize("f", clean.KEYS, **NAMED)
def test_keys_used_once_are_no_fault(f, key):
    assert jaxlens.silent(f, key).faults == ()


@pytest.mark.parametrize(("f", "args"), clean.OTHERS, **NAMED)
def test_a_clean_program_has_no_fault(f, args):
    answer = jaxlens.silent(f, *args)
    assert answer.faults == ()
    assert f"In `{answer.subject().program.name}` no key is used twice" in answer.findings[0].text


# JAX's own checker does not see that two `fold_in` are equal, nor, in old JAX, the next iteration.
@pytest.mark.parametrize("make", faulty.KEYS[:4] + faulty.KEYS[5:7], **NAMED)
def test_the_checker_of_jax_finds_the_planted_keys_too(make):
    f, args, *_ = make()
    with jax.debug_key_reuse(True), pytest.raises(jax.errors.KeyReuseError):
        jax.jit(f)(random.key(1), *args)


@pytest.mark.parametrize("f", [clean.split_in_a_scan, clean.folded], **NAMED)
def test_the_checker_of_jax_finds_none_in_clean_programs(f):
    with jax.debug_key_reuse(True):
        jax.jit(f)(random.key(1))


def test_results_that_are_called_equal_are_equal():
    def f(key):
        return random.normal(key, (4,)), random.normal(key, (4,)), random.normal(key, (5,))

    (fault,) = jaxlens.silent(f, clean.KEY).faults
    assert "some draw the same numbers" in fault.sentence
    assert np.array_equal(*f(clean.KEY)[:2])
    assert (fault.name, fault.line) == ("key", inspect.getsourcelines(f)[1] + 1)


def test_an_index_is_that_of_numpy():
    def f(x, i):
        return x[i]

    for index in (-5, -4, 0, 3, 4):
        faults = jaxlens.silent(f, X, np.int32(index)).faults
        with pytest.raises(IndexError) if faults else nullcontext():
            X[index]
        assert [(fault.index, fault.size) for fault in faults] == [(index, 4)] * len(faults)


def test_without_source_a_clamped_index_is_found_and_one_that_may_be_asked_for_is_not():
    names: dict = {}
    exec("f = lambda x, i: x[i]\ng = lambda x, i: x.at[i].set(1.0)", names)
    (fault,) = jaxlens.silent(names["f"], X, np.int32(4)).faults
    assert fault.index == 4
    assert jaxlens.silent(names["g"], X, np.int32(4)).faults == ()


def test_a_gradient_that_is_called_zero_is_zero():
    def loss(p, x):
        kept = jnp.where(p["mask"] > 0, p["kept"], 0.0)
        return jnp.sum(kept * x + jnp.floor(p["floor"]) * jnp.sign(p["sign"]))

    p = dict.fromkeys(("mask", "kept", "floor", "sign", "nowhere"), X + 0.5)
    found = {fault.name: fault.kind for fault in jaxlens.silent(loss, p, X).faults}
    grads = jax.grad(loss)(p, X)
    zeros = {f"p['{name}']" for name, grad in grads.items() if not np.any(grad)}
    assert set(found) == zeros
    assert found["p['nowhere']"] == "unread"
    of_gradient = {fault.name for fault in jaxlens.silent(jax.grad(loss), p, X).faults}
    assert of_gradient == zeros


def test_a_line_reached_by_two_calls_is_told_by_its_callers():
    def noise(key):
        return random.normal(key, (3,))

    def f(key):
        first = noise(key)
        return first + noise(key)

    (fault,) = jaxlens.silent(f, clean.KEY).faults
    start = inspect.getsourcelines(f)[1]
    assert [span.line for span in fault.spans] == [start + 1, start + 2]


def test_shapes_without_data_leave_the_indices_unknown():
    key = jax.eval_shape(lambda: random.key(0))
    answer = jaxlens.silent(faulty.drawn_twice()[0], key, jax.ShapeDtypeStruct((3,), "float32"))
    assert [fault.kind for fault in answer.faults] == ["key"]
    assert "No index was looked at" in str(answer)


def test_sums_in_any_order_are_those_of_floats_on_a_gpu():
    def f(x, i):
        counts = jnp.zeros(4, "int32").at[i].add(1)  # integers add up in any order
        return x.at[i].add(counts[i] * 1.0)

    here = jaxlens.capture(f, X, np.array([0, 0]))
    target = replace(here.program.target, platform="gpu")
    gpu = replace(here, program=replace(here.program, target=target))
    (fault,) = jaxlens.silent(gpu).faults
    assert (fault.kind, fault.line) == ("order", inspect.getsourcelines(f)[1] + 2)
    flagged = replace(here.program, target=target, flags=("xla_gpu_deterministic_ops=True",))
    assert jaxlens.silent(replace(here, program=flagged)).faults == ()
    assert jaxlens.silent(here).faults == ()
    assert "no operation is known" in str(jaxlens.silent(here))


def test_a_library_that_draws_a_path_anew_is_no_fault():
    diffrax = pytest.importorskip("diffrax")

    def f(key):
        path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.1, shape=(), key=key)
        noise = diffrax.ControlTerm(lambda t, y, args: 0.1, path)
        terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y), noise)
        return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.5, 1.0).ys

    assert jaxlens.silent(f, clean.KEY).faults == ()


def test_a_key_that_a_library_draws_with_is_the_users():
    equinox = pytest.importorskip("equinox")
    drop = equinox.nn.Dropout(0.5)

    def f(key, x):
        hidden = drop(x, key=key)
        return drop(jnp.tanh(hidden), key=key)

    (fault,) = jaxlens.silent(f, clean.KEY, X).faults
    assert fault.line == inspect.getsourcelines(f)[1] + 2
    assert "they draw the same numbers" in fault.sentence


def test_a_donated_argument_stays():
    x = jnp.arange(4.0)
    answer = jaxlens.silent(jax.jit(lambda x: x.at[9].set(1.0), donate_argnums=0), x)
    assert answer.found
    assert not x.is_deleted()


def test_html_says_what_the_text_says_and_escapes_names():
    f, args, *_ = faulty.drawn_twice()
    answer = jaxlens.silent(f, clean.KEY, *args)
    assert "they draw the same numbers" in answer.html()
    assert str(answer) == str(jaxlens.silent(f, clean.KEY, *args))


def test_core_programs_are_refused():
    with pytest.raises(UnavailableError, match="look at the function on jnp"):
        _ = jaxlens.silent(core.jit(cnp.sin), X).found
