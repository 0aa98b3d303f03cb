"""The errors of ten functions are those against 50 digits, equation by equation.

Where each loses digits first is known from numerical analysis: that line ends in `# here`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.questions.numerics import by_hand, lossy
from tests.support.paths import marked_line

F = np.float32
DRAWN = np.random.default_rng(7)


def logsumexp_near_zero():
    def f(x):
        most = jnp.max(x)
        log = jnp.log(jnp.sum(jnp.exp(x - most)))
        return log + most  # here

    return f, (np.log(np.array([0.5, 0.25, 0.25], F)),), "add"


def long_sum():
    def f(x):
        def add(total, one):
            total = total + one  # here
            return total, None

        return jax.lax.scan(add, F(1e4), x)[0]

    return f, (np.full(4000, 0.1, F),), "add"


def horner_near_a_root():
    def f(x):
        y = x - 6
        y = y * x + 12
        y = y * x
        return y - 8  # here

    return f, (F(2.03),), "sub"  # (x - 2)**3


def bf16_dot():
    x = np.array([1.01, -2.02, 3.03, 1.0], F)
    y = np.array([2.01, 2.51, 1.004, -0.0061], F)

    def f(x, y):
        a, b = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
        return jnp.dot(a, b)  # here

    return f, (x, y), "dot_general"


EVERY = (
    lossy.naive_variance,
    lossy.naive_log1p,
    lossy.naive_expm1,
    lossy.one_minus_cosine,
    lossy.large_softmax,
    logsumexp_near_zero,
    long_sum,
    lossy.quadratic_formula,
    horner_near_a_root,
    bf16_dot,
)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_errors_are_those_against_fifty_digits(make):
    f, args, *_ = make()
    answer = jaxlens.numerics(f, *args)
    truth = by_hand.errors(f, args)
    assert [answer.names[one.path[-1]] for one in answer.equations] == [name for name, *_ in truth]
    for one, (name, own, total) in zip(answer.equations, truth, strict=True):
        # Float64 has 29 bits more than float32: of 20 digits in cancellation it loses few itself.
        assert one.own == pytest.approx(own, rel=1e-4, abs=1e-6), name
        assert one.total == pytest.approx(total, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_digits_are_lost_where_analysis_says(make):
    f, args, opcode, *_ = make()
    line = marked_line(make)
    (loss,) = jaxlens.numerics(f, *args).losses
    assert (loss.opcode, loss.span.line) == (opcode, line)


CURES = {
    "naive_variance": "jnp.var",
    "naive_log1p": "jnp.log1p",
    "naive_expm1": "jnp.expm1",
    "one_minus_cosine": "jnp.sin(x / 2)",
    "quadratic_formula": "(a - b**2) / (sqrt(a) + b)",
}


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_a_cure_is_named_where_one_is_known(make):
    f, args, *_ = make()
    text = jaxlens.numerics(f, *args).findings[0].text
    known = [name for name, cure in CURES.items() if cure in text]
    assert known == [make.__name__] * (make.__name__ in CURES)
