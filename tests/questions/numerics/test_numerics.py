"""Errors are those against float64 by hand, at the line that loses digits; others have none."""

import inspect
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError
from tests.questions.numerics import lossy
from tests.support import programs
from tests.support.paths import marked_line, run_python

F = np.float32
ONES = np.ones(3, F)
RANDOM = np.random.default_rng(0).normal(size=(16, 16)).astype(F)


def ulp(value: float, bits: int = 24) -> float:
    """The unit in the last place of a number, by its exponent."""
    return math.ldexp(1.0, math.frexp(abs(value))[1] - bits)


@pytest.mark.parametrize("make", lossy.EVERY, ids=lambda make: make.__name__)
def test_digits_are_lost_at_the_line_that_loses_them(make):
    f, args, opcode, kind, exact = make()
    line = marked_line(make)
    answer = jaxlens.numerics(f, *args)
    loss = answer.losses[0]
    assert (loss.span.line, loss.opcode, loss.kind) == (line, opcode, kind)
    assert str(answer.findings[0].text).startswith(f"`{opcode}` in lossy.py:{line}")
    one = loss.execution
    assert one.exact == pytest.approx(exact, rel=1e-5)
    if math.isfinite(one.value):
        # The eager program itself, and float64: what each gives is compared by hand.
        assert one.total == pytest.approx(abs(one.value - exact) / ulp(exact), rel=0.02)
    else:
        assert one.total == one.own == math.inf


def test_own_errors_are_those_against_float64_of_the_same_operands():
    x = np.random.default_rng(1).uniform(1, 2, 64).astype(F)
    answer = jaxlens.numerics(lambda x: jnp.sqrt(jnp.exp(x) * x), x)
    exp, mul, sqrt = answer.equations
    a = np.asarray(jnp.exp(x))
    b = a * x
    c = np.asarray(jnp.sqrt(b))
    wide = [each.astype(np.float64) for each in (a, b, c, x)]
    by_hand = (
        (exp.own, wide[0], np.exp(wide[3])),
        (mul.own, wide[1], wide[0] * wide[3]),
        (sqrt.own, wide[2], np.sqrt(wide[1])),
        (sqrt.total, wide[2], np.sqrt(np.exp(wide[3]) * wide[3])),
    )
    for measured, value, exact in by_hand:
        scale = np.maximum(np.abs(exact), np.sqrt(np.mean(exact**2)))
        units = np.array([ulp(one) for one in scale])
        assert measured == pytest.approx(np.max(np.abs(value - exact) / units), rel=1e-6)


def masked(x):
    return jax.nn.softmax(jnp.where(x > 1, x, -jnp.inf), axis=-1)


CLEAN = {
    "mlp_step": programs.mlp_step,
    "attention": programs.attention,
    "scan_rnn": programs.scan_rnn,
    "softmax": lambda: (jax.nn.softmax, (np.array([100.0, 1, -200], F),)),
    "masked softmax": lambda: (masked, (2 * ONES,)),
    "logsumexp": lambda: (jax.nn.logsumexp, (1000 * ONES,)),
    "var": lambda: (jnp.var, (RANDOM + 300,)),
    "log1p": lambda: (jnp.log1p, (F(1e-5),)),
    "expm1": lambda: (jnp.expm1, (F(1e-5),)),
    "sinh": lambda: (jnp.sinh, (F(1e-4),)),
    "norm": lambda: (jnp.linalg.norm, (RANDOM,)),
    "product near zero": lambda: (lambda x: x @ x.T - x.T @ x, (RANDOM,)),
    "grad of layer norm": lambda: (
        jax.grad(lambda x: jax.nn.standardize(x).sum() ** 2 + x.sum()),
        (RANDOM,),
    ),
    "sort": lambda: (lambda x: jnp.sort(x, axis=0)[::-1], (RANDOM,)),
    "random": lambda: (lambda key: jax.random.normal(key, (8,)), (jax.random.key(0),)),
    "scatter": lambda: (lambda x: x.at[jnp.array([0, 0])].add(1.5), (ONES,)),
    "fft": lambda: (lambda x: jnp.fft.ifft(jnp.fft.fft(x)).real, (ONES,)),
    "bf16": lambda: (lambda x: jnp.sum(x * 2, axis=0), (jnp.asarray(RANDOM, jnp.bfloat16),)),
    "while": lambda: (
        lambda x: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: c * 1.5 + 1, x),
        (ONES,),
    ),
    "empty": lambda: (lambda x: jnp.log(x), (np.zeros((0, 3), F),)),
    "no equation": lambda: (lambda x: x, (ONES,)),
}


@pytest.mark.parametrize("make", CLEAN.values(), ids=CLEAN)
def test_a_clean_program_has_no_finding(make):
    f, args = make()
    answer = jaxlens.numerics(f, *args)
    assert not answer.found, str(answer)
    assert not answer.run.unknown


def test_a_stray_float32_scalar_of_a_bf16_model_is_named():
    w = jnp.asarray(RANDOM, jnp.bfloat16)

    def model(x, w):
        h = x @ w
        h = h * np.float32(0.5)
        return (jax.nn.relu(h) @ w).sum()

    answer = jaxlens.numerics(model, w, w)
    line = inspect.getsourcelines(model)[1] + 2
    (promotion,) = answer.promotions
    assert (promotion.span.line, promotion.opcode) == (line, "mul")
    assert str(promotion.narrow) == "bf16[16,16]"
    assert promotion.equations >= 3  # with the second product
    text = answer.findings[0].text
    assert text.startswith(f"`mul` in test_numerics.py:{line}")
    assert "other operand is 0.5:f32[]" in text


def test_an_explicit_conversion_and_a_python_number_are_no_promotion():
    w = jnp.asarray(RANDOM, jnp.bfloat16)

    def model(x, w, s):
        h = x.astype(jnp.float32) * s
        return h.astype(jnp.bfloat16) * 2.0 @ w, jnp.mean(x), jax.nn.softmax(x)

    assert not jaxlens.numerics(model, w, w, F(2)).promotions


def test_a_mean_in_float32_is_no_promotion_nor_a_loss_of_its_digits():
    w = jnp.asarray(RANDOM, jnp.bfloat16)

    def loss(w):
        v = w - w.mean(-1, keepdims=True)
        return jnp.sum(v * jax.lax.rsqrt(jnp.mean(v * v, -1, keepdims=True)))

    answer = jaxlens.numerics(jax.grad(loss), w)
    assert not answer.promotions
    inside = [one for one in answer.equations if one.dtype == "float32" and one.total > 1e4]
    assert inside  # float32, of operands that have the error of bfloat16
    assert all(one.lost < 3 for one in inside)


def test_a_float32_array_among_bf16_is_named_also_under_grad():
    w = jnp.asarray(RANDOM, jnp.bfloat16)

    def loss(w, scale):
        return jnp.sum(jnp.tanh(w) * scale)

    answer = jaxlens.numerics(jax.grad(loss), w, RANDOM[0])
    assert answer.promotions[0].span.line == inspect.getsourcelines(loss)[1] + 1
    assert "f32[16]" in answer.findings[0].text or "f32[1,16]" in answer.findings[0].text


def test_nothing_of_the_user_changes():
    x = jnp.ones(3) * 2
    step = jax.jit(lambda x: jnp.log(x), donate_argnums=0)
    state = np.random.get_state()[1].copy()
    assert not jaxlens.numerics(step, x).found
    assert not x.is_deleted()
    assert not jax.config.jax_enable_x64
    assert jnp.ones(3).dtype == jnp.float32
    assert (np.random.get_state()[1] == state).all()
    assert step._cache_size() == 0


def test_errors_say_what_to_do():
    with pytest.raises(OptionError, match="--numerics needs arrays"):
        jaxlens.numerics(jnp.log, jax.ShapeDtypeStruct((3,), "float32")).facts


def test_the_branch_and_the_number_of_iterations_are_those_of_the_program():
    def f(x):
        y = jax.lax.cond(x + 1e-9 > 1, jnp.sin, jnp.cos, x)
        return jax.lax.while_loop(lambda c: c + 1e-9 < 3, lambda c: c + F(1), y)

    answer = jaxlens.numerics(f, F(1))  # in float64 1 + 1e-9 > 1
    assert "cos" in {answer.names[one.path[-1]] for one in answer.equations}
    assert "sin" not in {answer.names[one.path[-1]] for one in answer.equations}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's data")
def test_what_cannot_be_allocated_ends_no_process():
    script = (
        "import resource, jax, jaxlens\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))\n"
        "g = jax.jit(lambda x: (x[:, None, :] * x[None]).sort(axis=0))\n"
        "try:\n    str(jaxlens.numerics(g, jax.numpy.ones((1000, 800))))\n"
        "except Exception as error:\n    print(error)\n"
    )
    assert "RESOURCE_EXHAUSTED" in run_python(script)
