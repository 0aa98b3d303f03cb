"""Programs that lose digits; the line that loses them ends in `# here`.

Each returns the function, its arguments, the primitive, the kind, and the values of the last
equations in float64 by NumPy: `(exact, of the same operands)` of the equation that is named.
"""

import jax
import jax.numpy as jnp
import numpy as np

F = np.float32


def naive_variance():
    x = np.random.default_rng(0).normal(300, 1, 1000).astype(F)

    def f(x):
        mean = jnp.mean(x)
        return jnp.mean(x * x) - mean * mean  # here

    wide = x.astype(np.float64)
    return f, (x,), "sub", "cancellation", (wide * wide).mean() - wide.mean() ** 2


def naive_log1p():
    def f(x):
        y = 1 + x
        return jnp.log(y)  # here

    return f, (F(1e-5),), "log", "amplification", np.log1p(np.float64(F(1e-5)))


def difference_of_squares():
    x, y = F(1000.1), F(1000.2)

    def f(x, y):
        a, b = x * x, y * y
        return a - b  # here

    return f, (x, y), "sub", "cancellation", (float(x) - float(y)) * (float(x) + float(y))


def quadratic_formula():
    a, b, c = F(1), F(1000), F(0.01)

    def f(a, b, c):
        root = jnp.sqrt(b * b - 4 * a * c)
        top = root - b  # here
        return top / (2 * a)

    root = np.sqrt(1e6 - 4 * float(c))
    return f, (a, b, c), "sub", "cancellation", -4 * float(c) / (root + 1000.0)


def large_softmax():
    x = np.array([100.0, 1, 2], F)

    def f(x):
        e = jnp.exp(x)  # here
        return e / e.sum()

    return f, (x,), "exp", "overflow", np.exp(np.float64(100))


def naive_logsumexp():
    x = np.array([100.0, 99, 98], F)

    def f(x):
        total = jnp.exp(x)  # here
        return jnp.log(total.sum())

    return f, (x,), "exp", "overflow", np.exp(np.float64(100))


def naive_expm1():
    def f(x):
        return jnp.exp(x) - 1  # here

    return f, (F(1e-5),), "sub", "cancellation", np.expm1(np.float64(F(1e-5)))


def many_small_and_one_large():
    x = np.full(3000, 0.03, F)

    def f(x):
        def add(total, y):
            total = total + y  # here
            return total, None

        return jax.lax.scan(add, jnp.float32(1e6), x)[0]

    return f, (x,), "add", "accumulation", 1e6 + 3000 * float(F(0.03))


def norm_of_large():
    x = np.array([1e25, 2e25], F)

    def f(x):
        squares = x * x  # here
        return jnp.sqrt(squares.sum())

    return f, (x,), "mul", "overflow", float(x[0]) ** 2


def sinh_near_zero():
    def f(x):
        e = jnp.exp(x), jnp.exp(-x)
        return (e[0] - e[1]) / 2  # here

    return f, (F(1e-4),), "sub", "cancellation", 2 * np.sinh(np.float64(F(1e-4)))


def one_minus_cosine():
    def f(x):
        return 1 - jnp.cos(x)  # here

    return f, (F(1e-3),), "sub", "cancellation", 2 * np.sin(np.float64(F(1e-3)) / 2) ** 2


def worst_iteration():
    x = np.array([2.0, 3.0, 1e-5, 4.0], F)

    def f(x):
        def step(total, y):
            return total + (jnp.exp(y) - 1) / y, jnp.exp(y) - 1  # here

        return jax.lax.scan(step, jnp.float32(0), x[2:3])[1]

    return f, (x,), "sub", "cancellation", np.expm1(np.float64(F(1e-5)))


EVERY = (
    naive_variance,
    naive_log1p,
    difference_of_squares,
    quadratic_formula,
    large_softmax,
    naive_logsumexp,
    naive_expm1,
    many_small_and_one_large,
    norm_of_large,
    sinh_near_zero,
    one_minus_cosine,
    worst_iteration,
)
