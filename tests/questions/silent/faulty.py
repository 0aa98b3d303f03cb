"""Programs with a planted fault of which JAX says nothing; its line ends in `# here`.

Each function returns a program, its arguments, and what must be found besides the line: the kind,
and words of the sentence. `KEYS` are those that take a key as their first argument.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

ONES = np.ones(3, np.float32)
TEN = np.arange(10, dtype=np.float32)


def drawn_twice():
    def f(key, x):
        noise = random.normal(key, (3,))
        more = random.normal(key, (3,))  # here
        return x + noise - more

    return f, (ONES,), "key", "they draw the same numbers"


def drawn_by_two_samplers():
    def f(key, x):
        mask = random.bernoulli(key, 0.5, (3,))
        return x * mask + random.normal(key, (3,))  # here

    return f, (ONES,), "key", "`key` is used twice"


def parent_of_a_split():
    def f(key, x):
        now, _ = random.split(key)
        noise = random.normal(now, (3,))
        return x + noise + random.uniform(key, (3,))  # here

    return f, (ONES,), "key", "they are not independent"


def row_of_a_split():
    def f(key, x):
        keys = random.split(key, 3)
        x = x + random.normal(keys[1], (3,)) + random.normal(keys[0], (3,))
        return x * random.uniform(keys[1], (3,))  # here

    return f, (ONES,), "key", "Key 1 made at faulty.py:"


def folded_with_one_number():
    def f(key, x):
        a = random.normal(random.fold_in(key, 7), (3,))
        b = random.normal(random.fold_in(key, 7), (3,))  # here
        return x + a + b

    return f, (ONES,), "key", "they draw the same numbers"


def captured_by_a_scan():
    def f(key, x):
        def body(carry, _):
            return carry + random.normal(key, (3,)), None  # here

        return lax.scan(body, x, None, length=4)[0]

    return f, (ONES,), "key", "in every iteration of the loop at faulty.py:"


def captured_by_a_while():
    def f(key, x):
        def body(n, total):
            n, key = n
            total = total + random.uniform(key)  # here
            return (n + 1, key), total

        return lax.while_loop(lambda c: c[0][0] < 3, lambda c: body(*c), ((0, key), jnp.sum(x)))[1]

    return f, (ONES,), "key", "in every iteration of the loop at faulty.py:"


def drawn_and_carried_on():
    def f(key, x):
        def body(key, _):
            after, _ = random.split(key)  # here
            return after, random.normal(after, (3,))

        return x + lax.scan(body, key, None, length=3)[1]

    return f, (ONES,), "key", "there by the next iteration"


def last_of_a_scan():
    def f(key, x):
        def body(key, now):
            return random.split(key)[0], random.normal(now, (3,))

        keys = random.split(key, 5)
        last, drawn = lax.scan(body, keys[0], keys[1:])
        return x + drawn + random.normal(last, (3,)) + random.normal(keys[-1], (3,))  # here

    return f, (ONES,), "key", "Key 4 made at faulty.py:"


def folded_with_an_inner_index():
    def f(key, x):
        def body(i, total):
            def step(j, t):
                return t + random.normal(random.fold_in(key, j))  # here

            return total + lax.fori_loop(0, 3, step, 0.0)

        return x + lax.fori_loop(0, 3, body, 0.0)

    return f, (ONES,), "key", "is used in every iteration of the loop at faulty.py:"


KEYS = (
    drawn_twice,
    drawn_by_two_samplers,
    parent_of_a_split,
    row_of_a_split,
    folded_with_one_number,
    captured_by_a_scan,
    captured_by_a_while,
    drawn_and_carried_on,
    last_of_a_scan,
    folded_with_an_inner_index,
)


def clamped_in_a_scan():
    def f(x):
        def body(carry, i):
            return carry + x[i], None  # here

        return lax.scan(body, 0.0, jnp.arange(4) + 8)[0]

    return f, (TEN,), "index", "of an axis with 10 elements, in iteration 2 (from 0)"


def gathered_beyond():
    def f(x, i):
        y = x * 2
        return y[i]  # here

    return (
        f,
        (TEN, np.array([1, -10, -12, 4])),
        "index",
        "reads index -12 of an axis with 10 elements",
    )


def dropped_update():
    def f(x, i):
        return x.at[i].add(1.0)  # here

    return f, (TEN, np.array([1, 10, 11])), "index", "JAX drops it. It has 2 such indices"


def taken_beyond():
    def f(table, ids):
        return jnp.take(table, ids, axis=0)  # here

    return f, (np.ones((5, 2), np.float32), np.array([4, 5])), "index", "JAX fills in NaN"


INDEX = {
    "drops it. It has 2": lambda x, i: jax.ops.segment_sum(x[:3], i, 10),
    "drops it. It has 2 such": lambda x, i: jax.ops.segment_max(x[:3], i, num_segments=10),
    "encodes index -1 of 10 classes: JAX makes zeros": lambda x, i: jax.nn.one_hot(i, 10),
    "writes index 12": lambda x, i: jnp.put_along_axis(x, i, 0.0, 0, inplace=False),
}
SIZE = {
    "finds 9 elements for a `size` of 3: JAX drops the rest": lambda x, i: jnp.nonzero(x, size=3),
    "finds 4 elements for a `size` of 2": lambda x, i: jnp.where(x > 5, size=2),
    "finds 9 elements for": lambda x, i: jnp.argwhere(x.reshape(5, 2) > 0, size=3),
    "finds 10 elements for": lambda x, i: jnp.unique(x, size=3, return_counts=True),
    "in iteration 0 (from 0)": lambda x, i: lax.map(
        lambda y: jnp.flatnonzero(y, size=2), x.reshape(2, 5)
    ),
}
OUTSIDE = np.array([-1, 4, 12], np.int32)


def late_slice():
    def f(x, i):
        return lax.dynamic_slice(x, (i,), (3,))  # here

    return f, (TEN, np.int32(8)), "index", "index 8 of an axis with 10 elements: JAX takes index 7."


def stopped():
    def f(params, x):
        scale = lax.stop_gradient(params["b"])  # here
        return jnp.sum(x * params["a"] * scale)

    return f, ({"a": ONES, "b": ONES}, ONES), "gradient", "`params['b']` is zero by construction"


def rounded_in_a_step():
    def f(params, x):
        def loss(params):
            steps = jnp.round(params["b"])  # here
            return jnp.sum((x * params["a"] - steps) ** 2)

        loss, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    return f, ({"a": ONES, "b": ONES}, ONES), "gradient", "`round` in faulty.py:"


OTHERS = (
    clamped_in_a_scan,
    gathered_beyond,
    dropped_update,
    taken_beyond,
    late_slice,
    stopped,
    rounded_in_a_step,
)
