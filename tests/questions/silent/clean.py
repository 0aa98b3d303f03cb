"""Programs without such a fault: what looks like one is meant, or does not happen."""

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, random

TEN = np.arange(10, dtype=np.float32)
KEY = random.key(0)
RAW = random.PRNGKey(0)


def split_in_a_scan(key):
    def body(key, _):
        key, now = random.split(key)
        return key, random.normal(now, (2,))

    key, drawn = lax.scan(body, key, None, length=3)
    return drawn + random.normal(random.split(key)[0], (2,))


def split_rows(key):
    a, b, *rest = random.split(key, 5)
    walked = lax.scan(lambda c, k: (c + random.normal(k), None), 0.0, jnp.stack(rest))[0]
    return random.normal(a) + random.normal(b) + walked


def folded(key):
    def body(i, total):
        return total + random.normal(random.fold_in(key, i))

    parts = [random.normal(random.fold_in(key, n)) for n in range(100, 103)]
    return lax.fori_loop(0, 4, body, 0.0) + sum(parts)


def one_branch(key, x):
    return lax.cond(x > 0, lambda k: random.normal(k), lambda k: random.uniform(k), key)


def drawn_again_by_remat(key, x):
    @jax.checkpoint
    def layer(x):
        return jnp.sin(x) * random.bernoulli(key, 0.5, x.shape)

    return jax.grad(lambda x: jnp.sum(layer(x) ** 2))(x)


def exchanged(key):
    def body(pair, n):
        return pair[::-1], lax.cond(n == 2, lambda: random.normal(pair[0]), lambda: 0.0 * n) + n

    (a, _), drawn = lax.scan(body, tuple(random.split(key)), jnp.arange(3.0))
    return random.normal(a) + drawn


def vmapped(key):
    return jax.vmap(random.poisson, (0, None))(random.split(key, 3), 4.0)


def from_the_end(x, i):
    return x[-1] + x[-i] + jnp.sum(x[jnp.array([-10, 9])]) + jnp.roll(x, i)[0]


def asked_for(x, i):
    y = x.at[i].set(
        1.0,
        mode="drop",
    )
    return y.at[i].get(mode="fill", fill_value=0) + jnp.take(x, i, mode="clip")


def masked(x, i):
    inside = i < x.shape[0]
    return jnp.where(inside, x[i], 0.0) + x[jnp.where(inside, i, 0)]


def of_jax(x, i):
    counts = jnp.bincount(i, length=12) + jax.nn.one_hot(i, 12).sum(0)
    sums = jax.ops.segment_sum(x[: i.size], i, 12)
    return sums + counts + lax.switch(i[0], (jnp.sin, jnp.cos), x[0])


def negative_beside_a_mode(x, i):
    y = x.at[-2].set(1.0, mode="promise_in_bounds") + x.at[-i].get(wrap_negative_indices=False)[0]
    return y.at[i].set(x[-1] + x[-i][0], mode="drop")


def with_room(x, i):
    counts = jnp.bincount(jnp.maximum(i, 0), length=12)
    found = jnp.nonzero(x, size=9)[0].sum() + jnp.where(x > 5, size=7)[0].sum()
    return counts, found + jnp.unique(x, size=10).sum(), jnp.where(x > 5, x, 0), jnp.clip(i, 0)


def straight_through(params, x):
    weight = params["w"] + lax.stop_gradient(jnp.round(params["w"]) - params["w"])
    return jnp.sum(weight * x)


def adam_step(params, state, x):
    def loss(params):
        return jnp.sum(jnp.tanh(x @ params["w"] + params["b"]) ** 2)

    grads = jax.grad(loss)(params)
    updates, state = optax.adam(1e-3).update(grads, state, params)
    return optax.apply_updates(params, updates), state


class Net(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(5, 4, rngs=rngs)
        self.linear = nnx.Linear(4, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, ids):
        return self.drop(self.norm(self.drop(self.linear(self.embed(ids)))))


def nnx_step():
    net = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((net, optimizer))

    def step(state, ids):
        net, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(lambda net: jnp.mean(net(ids) ** 2))(net)
        optimizer.update(net, grads)
        return nnx.state((net, optimizer)), loss

    return step, (state, np.array([0, 4]))


W = {"w": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)}
BEYOND = np.array([1, 12])
KEYS = (split_in_a_scan, split_rows, folded, exchanged, vmapped)
OTHERS = (
    (one_branch, (KEY, 1.0)),
    (drawn_again_by_remat, (KEY, TEN)),
    (from_the_end, (TEN, np.int32(2))),
    (asked_for, (TEN, np.int32(12))),
    (masked, (TEN, BEYOND)),
    (of_jax, (TEN, np.array([0, 1, 5]))),
    (with_room, (TEN, np.array([-1, 0, 5]))),
    (negative_beside_a_mode, (TEN, np.array([2, 3]))),
    (straight_through, ({"w": TEN}, TEN)),
    (adam_step, (W, optax.adam(1e-3).init(W), np.ones((2, 3), np.float32))),
    nnx_step(),
)
