"""Of equally near earlier keys the same is named in every run; JAX's caches have no order."""

import jax
import numpy as np
import pytest

import jaxlens
from jaxlens import compat
from jaxlens.listen import listen
from jaxlens.stages.driver import capture

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


def vector(n):
    return np.ones(n, np.float32)


def functions(n):
    """A function object for each of `n` calls, of one line."""
    return [jax.jit(lambda x: x * 2) for _ in range(n)]


def one(n, **options):
    return [jax.jit(lambda x, n=0: jax.tree.map(abs, x), **options)] * n


# The functions, the earlier calls, the new call, what it is compared with.
CASES = {
    "sizes": (one, [(vector(n),) for n in (21, 4, 5, 8)], (vector(3),), "x: f32[3], was f32[21]"),
    "ranks": (
        one,
        [(np.ones(s, np.float32),) for s in ((2, 7), (2, 9), (1, 5), (4, 4))],
        (np.ones((2, 5), np.float32),),
        "x: f32[2,5], was f32[1,5]",
    ),
    "static values": (
        lambda n: one(n, static_argnames="n"),
        [(1.0, n) for n in (7, 3, 5, 9)],
        (1.0, 1),
        "n: static value 1, was 3",
    ),
    "containers": (
        one,
        [({name: vector(2)},) for name in "cbda"],
        ({"e": vector(2)},),
        "x['a']: gone",
    ),
    "function objects": (
        functions,
        [(vector(n),) for n in (21, 4, 5, 8)],
        (vector(3),),
        "x: f32[3], was f32[21]",
    ),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_of_equally_near_keys_the_first_by_text(case, backwards, monkeypatch):
    made, earlier, new, reason = CASES[case]
    jax.clear_caches()  # of functions of other cases that the collector has not reached
    *before, last = made(len(earlier) + 1)
    for f, args in zip(before, earlier, strict=True):
        f(*args)
    for name in ("every_trace_key", "trace_keys"):
        in_order = getattr(compat, name)
        monkeypatch.setattr(
            compat,
            name,
            lambda *a, keys=in_order: sorted(
                keys(*a), key=lambda key: str(key[-1]), reverse=backwards
            ),
        )
    if case != "function objects":
        assert capture(last, new, {}).verdict.reasons[-1] == reason
    with jaxlens.recompiles() as log:
        last(*new)
    assert reason in [str(change) for change in log.log.calls[0].changes]


def test_of_equally_near_keys_of_the_log_the_latest():
    with jaxlens.recompiles() as log:
        for f, n in zip(one(4), (21, 4, 5, 8), strict=True):
            f(vector(n))
    assert [str(change) for call in log.log.calls[1:] for change in call.changes] == [
        "x: f32[4], was f32[21]",
        "x: f32[5], was f32[4]",
        "x: f32[8], was f32[5]",
    ]


def test_a_key_that_the_log_forgot_is_read_from_jax():
    first, *others = functions(70)
    with jaxlens.recompiles() as log:
        first(vector(3))
        for f in others:
            f.trace(vector(2))
        first(vector(4))
    assert [str(change) for change in log.log.calls[-1].changes] == ["x: f32[4], was f32[3]"]


def test_jax_is_asked_once_for_functions_that_are_new_since(monkeypatch):
    jax.clear_caches()
    asked, keys = [], compat.every_trace_key
    monkeypatch.setattr(compat, "every_trace_key", lambda: asked.append(1) or keys())
    with jaxlens.recompiles() as log:
        for f in functions(4):
            f.trace(vector(3))
    assert len(asked) == 1
    assert [len(call.changes) for call in log.log.calls] == [0, 1, 1, 1]


def test_a_trace_whose_key_was_not_logged_is_read_from_jax(monkeypatch):
    other, f = one(1)[0], one(1)[0]
    with jaxlens.recompiles() as log:
        other.trace(vector(3))
        with monkeypatch.context() as patched:
            patched.setattr(listen, "key_of", lambda *call: None)
            f(vector(3))
        f.trace(vector(4))
    assert [str(change) for change in log.log.calls[-1].changes] == ["x: f32[4], was f32[3]"]
