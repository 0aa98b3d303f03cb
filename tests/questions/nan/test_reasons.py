"""The first sentence says why, and names the line at fault, where that is another one.

The line at fault ends in `# fault`; each function returns a program, its arguments, and what the
sentence must say.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support import paths

F = np.float32
ONES = np.ones(3, F)


def norm_of_one_example():
    def distance(x, y):
        return jnp.linalg.norm(x - y)  # fault

    xs = np.arange(192, dtype=F).reshape(64, 3)
    ys = xs + 1
    ys[37] = xs[37]
    return jax.vmap(jax.grad(distance)), (xs, ys), "in the derivative of the square root at 0"


def std_of_equal_numbers():
    def f(x):
        return jnp.std(x)  # fault

    return jax.grad(f), (ONES,), "in the derivative of the square root at 0"


def root_that_where_hides():
    def f(x, steps):
        def outer(h, step):
            def inner(h, n):
                y = jnp.where(h > n, jnp.sqrt(h - n), 0.0)  # fault
                return h * 0.9, y

            h, ys = jax.lax.scan(inner, h, jnp.arange(4.0))
            return h + step, ys.sum()

        return jax.lax.scan(outer, x, steps)[1].sum()

    return jax.grad(f), (F(2), 0 * ONES), "in a branch that jnp.where did not take"


def arccos_of_equal_directions():
    def f(a, b):
        cosine = jnp.dot(a, b)
        return jnp.arccos(cosine)  # fault

    unit = np.eye(3, dtype=F)[0]
    return jax.grad(f), (unit, unit), "in the derivative of arccos at 1 or -1"


def arctan2_of_the_origin():
    def f(x, y):
        return jnp.arctan2(y, x).sum()  # fault

    return jax.grad(f), (0 * ONES, 0 * ONES), "in the derivative of arctan2 at (0, 0)"


def root_as_a_power():
    def f(x):
        return jnp.power(x, 0.5).sum()  # fault

    return jax.grad(f), (0 * ONES,), "in the derivative of a power at 0"


def logsumexp_of_a_full_mask():
    def f(x):
        return jax.nn.logsumexp(x, axis=-1).sum()  # fault

    x = np.zeros((3, 4), F)
    x[1] = -np.inf
    return jax.grad(f), (x,), "in the derivative of the logarithm at 0"


def product_of_small_numbers():
    def f(p):
        likelihood = jnp.prod(p)  # fault
        return jnp.log(likelihood)

    return f, (np.full(50, 0.1, F),), "the 0 is an underflow of `reduce_prod`"


def log_of_a_softmax():
    def f(x):
        e = jnp.exp(x - x.max())  # fault
        p = e / e.sum()
        return jnp.log(p)

    return f, (np.array([0, 200], F),), "the 0 is an underflow of `exp`"


def full_mask_of_attention():
    def f(q, mask):
        bias = jnp.where(mask, 0.0, -jnp.inf)  # fault
        scores = q @ q.T + bias
        return jax.nn.softmax(scores) @ q

    return f, (np.ones((4, 2), F), np.zeros((4, 4), bool)), "the infinity in it is written in"


def overflow_of_bfloat16():
    def f(x):
        y = x.astype(jnp.bfloat16)
        z = y * y  # fault
        return z - z.max()

    return f, (np.array([1e10, 3e19], F),), "a result beyond the largest finite bfloat16"


EVERY = [value for value in list(globals().values()) if inspect.isfunction(value)]


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_the_sentence_names_the_fault_and_why(make):
    f, args, why = make()
    line = paths.marked_line(make, "fault")
    answer = jaxlens.first_nan(f, *args)
    assert why in answer.sentence
    assert f"test_reasons.py:{line}" in answer.sentence
    if make is overflow_of_bfloat16:  # another type is no guard of an equation
        assert any(finding.text.endswith("Not tried.") for finding in answer.findings)
        return
    assert answer.trial.cured, str(answer)
    tried = f"Tried: with {answer.trial.guards}, no result has"
    assert any(tried in finding.text for finding in answer.findings)


def test_the_example_of_a_gradient_is_named():
    f, args, _ = norm_of_one_example()
    assert jaxlens.first_nan(f, *args).maker.index == (37, 0)


def test_each_loop_around_it_is_named():
    f, args, _ = root_that_where_hides()
    text = jaxlens.first_nan(f, *args).findings[1].text
    assert text.startswith("In iteration 2 of the loop at test_reasons.py:")
    assert ", in iteration 0 of the loop at test_reasons.py:" in text


def test_of_a_loop_in_reverse_the_element_is_named():
    def f(x, ts):
        def step(h, t):
            return h * 0.5, jnp.where(t > 0, jnp.sqrt(t * h), 0.0)

        return jax.lax.scan(step, x, ts)[1].sum()

    ts = np.ones(8, F)
    ts[5] = 0
    answer = jaxlens.first_nan(jax.grad(f), F(1), ts)
    assert [(loop.number, loop.element) for loop in answer.maker.loops] == [(2, 5)]
    assert answer.iteration == 2
    assert "which runs in reverse and is at element 5" in answer.findings[1].text


def test_arguments_with_an_infinity_that_becomes_a_nan_are_named():
    a = np.array([0, -np.inf], F)
    answer = jaxlens.first_nan(lambda a, b: a - b, a, a)
    assert "arguments a and b already contain the infinity in it" in answer.sentence


def test_a_division_of_the_user_is_no_derivative():
    def f(x):
        root = jnp.sqrt(x)
        y = 1.0 / root
        return y.sum()

    answer = jaxlens.first_nan(jax.value_and_grad(f), 0 * ONES)
    assert answer.span.line == inspect.getsourcelines(f)[1] + 2
    assert (answer.maker.reason.text, answer.maker.in_gradient) == ("a division by 0", False)


def test_a_gradient_that_reads_a_nan_which_where_hides_is_named():
    def spread(x):
        known = jnp.where(jnp.isnan(x), 0.0, x)
        far = jnp.where(jnp.isnan(x), 0.0, (x - known.mean()) ** 2)
        return far.sum()

    x = np.array([np.nan, 1, 2], F)
    line = inspect.getsourcelines(spread)[1] + 2
    answer = jaxlens.first_nan(jax.grad(spread), x)
    assert answer.sentence.startswith("Argument x already contains NaN; the gradient of ")
    assert f"test_reasons.py:{line}" in answer.sentence
    assert jaxlens.first_nan(lambda x: x + 1, x).gradient is None
