"""Programs with a planted NaN or infinity; the line that makes it ends in `# here`.

Each function returns a program, its arguments, and what must be found besides the line: the
primitive, and the iteration in a loop.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

ONES = np.ones(3, np.float32)


def logarithm_of_negative():
    def f(x):
        y = x - 2
        return jnp.log(y).sum()  # here

    return f, (ONES,), "log", None


def root_of_negative():
    def f(x):
        return x + jnp.sqrt(-x)  # here

    return f, (ONES,), "sqrt", None


def zero_by_zero():
    def f(x):
        centred = x - x.mean()
        return centred / centred.std()  # here

    return f, (ONES,), "div", None


def division_by_zero():
    def f(x, n):
        return x / n  # here

    return f, (ONES, np.float32(0)), "div", None


def infinity_less_infinity():
    def f(x):
        big = x * 1e30
        a = big * 1e30
        return a - a  # here

    return f, (ONES,), "sub", None


def overflow_of_exp():
    def f(x):
        e = jnp.exp(x * 100)
        return e / e.sum()  # here

    return f, (ONES,), "div", None


def infinite_exp():
    def f(x):
        return jnp.exp(x * 100)  # here

    return f, (ONES,), "exp", None


def overflow_of_float16():
    def f(x):
        y = x.astype(jnp.float16) * 300
        return y * y  # here

    return f, (ONES,), "mul", None


def power_of_negative():
    def f(x):
        return (-x) ** 0.5 + x**0.3  # here

    return f, (ONES,), None, None


def arc_of_too_much():
    def f(a, b):
        cosine = (a * b).sum()
        return jnp.arccos(cosine)  # here

    return f, (ONES, ONES), None, None


def atanh_of_one():
    def f(x):
        return jnp.arctanh(x)  # here

    return f, (ONES,), None, None


def log1p_below():
    def f(x):
        return jnp.log1p(-2 * x)  # here

    return f, (ONES,), "log1p", None


def zero_times_infinity():
    def f(x):
        inverse = 1 / (x - 1)
        return (x - 1) * inverse  # here

    return f, (ONES,), "mul", None


def cholesky_of_indefinite():
    def f(x):
        return jnp.linalg.cholesky(x @ x.T - 2 * jnp.eye(3))  # here

    return f, (np.eye(3, dtype=np.float32),), None, None


def sine_of_infinity():
    def f(x):
        t = 1 / (x - 1)
        return jnp.sin(t)  # here

    return f, (ONES,), "sin", None


def masked_row():
    def f(scores, mask):
        scores = jnp.where(mask, scores, -jnp.inf)
        shifted = scores - scores.max(-1, keepdims=True)  # here
        e = jnp.exp(shifted)
        return e / e.sum(-1, keepdims=True)

    mask = np.ones((4, 4), bool)
    mask[2] = False
    return f, (np.ones((4, 4), np.float32), mask), "sub", None


def scan_at_iteration_four():
    def f(x, steps):
        def body(h, step):
            h = h - step
            return h, jnp.log(h)  # here

        return jax.lax.scan(body, x, steps)

    return f, (np.float32(4.5), np.ones(9, np.float32)), "log", 4


def scan_carried():
    def f(x):
        def body(h, _):
            return jnp.sqrt(h - 1), None  # here

        return jax.lax.scan(body, x, None, length=8)[0]

    return f, (np.float32(5),), "sqrt", 3


def backward_scan():
    def f(xs):
        return jax.lax.scan(lambda c, x: (c, jnp.log(x)), 0.0, xs, reverse=True)[1]  # here

    return f, (np.array([1, 2, -1, 3, 4], np.float32),), "log", 2


def while_at_iteration_two():
    def f(x):
        def body(carry):
            n, h = carry
            h = jnp.log(h)  # here
            return n + 1, h

        return jax.lax.while_loop(lambda carry: carry[0] < 6, body, (0, x))[1]

    return f, (np.float32(2),), "log", 2


def nested_loops():
    def f(x):
        def row(h, a):
            def cell(h, b):
                return h, jnp.log(h - a * b)  # here

            return jax.lax.scan(cell, h, jnp.arange(4.0))

        return jax.lax.scan(row, x, jnp.arange(3.0))[1]

    return f, (np.float32(5),), "log", 3


def branch_that_runs():
    def f(x):
        return jax.lax.cond(
            x.sum() > 0,
            lambda x: jnp.log(-x),  # here
            lambda x: x / 0,
            x,
        )

    return f, (ONES,), "log", None


def one_example_of_a_batch():
    def one(x):
        return jnp.log(x.sum())  # here

    xs = np.ones((5, 3), np.float32)
    xs[3] = -1
    return jax.vmap(one), (xs,), "log", None


def gradient_of_a_branch():
    def f(x):
        return jnp.where(x > 1, jnp.log(x - 1), 0.0).sum()  # here

    return jax.grad(f), (ONES,), None, None


def gradient_of_a_norm():
    def f(x):
        return jnp.sqrt((x * x).sum())  # here

    # 0 times an infinite derivative, in the square below
    return jax.grad(f), (0 * ONES,), "mul", None


def gradient_of_a_root():
    def f(x):
        root = jnp.sqrt(x - 1)  # here
        return (root * 0).sum()

    return jax.grad(f), (ONES,), None, None


def under_checkpoint():
    def f(x):
        @jax.checkpoint
        def layer(x):
            y = x * 2
            return jnp.log(-y)  # here

        return layer(x) + 1

    return f, (ONES,), "log", None


def within_a_custom_rule():
    @jax.custom_vjp
    def own(x):
        return jnp.log(x - 2)  # here

    own.defvjp(lambda x: (own(x), x), lambda x, t: (t / x,))
    return lambda x: own(x) * 2, (ONES,), "log", None


def called_twice():
    @jax.jit
    def inner(x):
        return jnp.log(x)  # here

    return lambda x: inner(x) + inner(-x), (ONES,), "log", None


def donated():
    def f(x):
        return jnp.log(-x)  # here

    return jax.jit(f, donate_argnums=0), (jnp.ones(3),), "log", None


def optax_step():
    import optax

    def f(w, x):
        def loss(w):
            return jnp.log((w * x).sum() - 3)  # here

        value, grad = jax.value_and_grad(loss)(w)
        tx = optax.adam(1e-2)
        updates, _ = tx.update(grad, tx.init(w), w)
        return optax.apply_updates(w, updates), value

    return f, (ONES, 0.5 * ONES), "log", None


def full_mask_of_nnx():
    from flax import nnx

    def attend(q, k, v, mask):
        scores = jnp.where(mask, q @ k.T, -jnp.inf)
        return nnx.softmax(scores) @ v  # here

    q = np.ones((4, 2), np.float32)
    return attend, (q, q, q, np.zeros((4, 4), bool)), None, None


def diffrax_solve():
    import diffrax

    def f(y0):
        def field(t, y, args):
            return -jnp.sqrt(y)  # here

        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Euler(),
            t0=0.0,
            t1=4.0,
            dt0=0.5,
            y0=y0,
            max_steps=16,
        ).ys

    return f, (np.float32(1),), "sqrt", 3


EVERY = [value for value in list(globals().values()) if inspect.isfunction(value)]
