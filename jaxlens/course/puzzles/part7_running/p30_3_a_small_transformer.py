"""Puzzle 30.3."""

from dataclasses import replace
from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    at_least,
    at_most,
    close,
    edited,
)

_WORDS, _WIDTH, _LAYERS = 256, 32, 3
_FLOPS = 10_500_000  # 9.7 million of the layers and the logits; a one-hot product has 1.6 more


def check(step: Function, args: tuple[Any, ...], train: Function) -> Facts:
    import jax

    params, batches = _numbers()
    given = jax.tree.map(jax.numpy.asarray, params)
    with jaxlens.recompiles() as log:
        trained, losses = train(given, jax.numpy.asarray(batches), 0.2)
    wanted, right = _trained(params, batches, 0.2)
    hint = "One loss for each batch: that of the parameters before the step, as now."
    yield close("losses", [float(loss) for loss in losses], right, rtol=1e-3, hint=hint)
    hint = "One step of gradient descent for each batch."
    for name, value in sorted(wanted.items()):
        yield close(f"`{name}` after training", trained[name], value, rtol=1e-3, hint=hint)
    hint = "`make_step` makes a new function for each batch, and each is compiled anew."
    yield at_most("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)
    seen = jaxlens.capture(step, *args)  # compiled once for all that follows
    hint = "The tokens are a constant of the program, as `step` closes over them. Pass them."
    proof = Proof(jaxlens.captured, (step, *args))
    baked = jaxlens.captured(seen).bytes
    yield at_most("bytes baked in", baked, 1000, unit="B", hint=hint, evidence=proof)
    products = jaxlens.receipt(seen).primitives.get("dot_general", 0)
    hint = (
        "A Python loop was written out: over the rows of a batch, or over the layers. Which "
        "transform takes the place of the first, and which loop of JAX's that of the second?"
    )
    proof = Proof(jaxlens.jaxpr, (step, *args))
    yield at_most("products in the program", products, 24, hint=hint, evidence=proof)
    hint = "`step(*args)` is a step of `train`: forwards and back."
    yield at_least("products of a step", products, 12, hint=hint, evidence=proof)
    flops = jaxlens.cost(seen).flops
    hint = "A one-hot row times a table is a row of the table: look it up by its index."
    proof = Proof(jaxlens.cost, (step, *args))
    yield at_most("flops", flops, _FLOPS, unit="flop", hint=hint, evidence=proof)
    used = sum(
        donation.donated and donation.result != "" for donation in jaxlens.memory(seen).donations
    )
    hint = "No old parameter is needed after the step. `donate_argnums` gives their memory back."
    proof = Proof(jaxlens.memory, (step, *args))
    of = f"of {len(params)} arrays"
    reused = Fact("old parameters written over", f"{len(params)} {of}", f"{used} {of}", used == 4)
    yield replace(reused, hint=hint, evidence=proof)


def _numbers() -> tuple[dict[str, Any], Any]:
    random = np.random.default_rng(3)

    def weights(*shape: int) -> Any:
        return (random.normal(size=shape) / shape[-2] ** 0.5).astype(np.float32)

    params = {
        "table": weights(_WORDS, _WIDTH),
        "qkv": weights(_LAYERS, _WIDTH, 3 * _WIDTH),
        "up": weights(_LAYERS, _WIDTH, 2 * _WIDTH),
        "down": weights(_LAYERS, 2 * _WIDTH, _WIDTH),
    }
    return params, random.integers(0, _WORDS, size=(2, 3, 17), dtype=np.int32)


def _reference_step(params: Any, tokens: Any, rate: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(params: Any) -> Any:
        h = params["table"][tokens[:, :-1]]
        length = h.shape[1]
        before = jnp.tril(jnp.ones((length, length), bool))
        for n in range(_LAYERS):
            q, k, v = jnp.split(h @ params["qkv"][n], 3, axis=-1)
            scores = q @ k.swapaxes(1, 2) / _WIDTH**0.5
            h = h + jax.nn.softmax(jnp.where(before, scores, -1e9)) @ v
            h = h + jnp.tanh(h @ params["up"][n]) @ params["down"][n]
        logits = jax.nn.log_softmax(h @ params["table"].T)
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], 2).mean()

    value, slopes = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, s: p - rate * s, params, slopes), value


def _trained(params: Any, batches: Any, rate: float) -> tuple[Any, list[float]]:
    import jax

    step, losses = jax.jit(_reference_step), []
    for tokens in batches:
        params, value = step(params, tokens, rate)
        losses.append(float(value))
    return params, losses


_NUMBERS = """\
def random_params(seed=0, words=256, width=32, layers=3):
    def weights(key, *shape):
        return jax.random.normal(key, shape) / shape[-2] ** 0.5

    a, b, c, d = jax.random.split(jax.random.key(seed), 4)
    return {
        "table": weights(a, words, width),
        "qkv": weights(b, layers, width, 3 * width),
        "up": weights(c, layers, width, 2 * width),
        "down": weights(d, layers, 2 * width, width),
    }


batches = jax.random.randint(jax.random.key(1), (4, 3, 17), 0, 256)
"""

SOLUTION = f"""\
from functools import partial


def attend(h, qkv):
    q, k, v = jnp.split(h @ qkv, 3, axis=-1)
    scores = q @ k.T / h.shape[-1] ** 0.5
    before = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(before, scores, -1e9)) @ v


def row_loss(params, row):
    def layer(h, weights):
        h = h + attend(h, weights["qkv"])
        return h + jnp.tanh(h @ weights["up"]) @ weights["down"], None

    h = params["table"][row[:-1]]
    layers = {{name: params[name] for name in ("qkv", "up", "down")}}
    h, _ = lax.scan(layer, h, layers)
    logits = jax.nn.log_softmax(h @ params["table"].T)
    return -jnp.take_along_axis(logits, row[1:, None], 1).mean()


@partial(jax.jit, donate_argnums=0)
def step(params, tokens, rate):
    def loss(params):
        return jax.vmap(row_loss, in_axes=(None, 0))(params, tokens).mean()

    value, slopes = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, s: p - rate * s, params, slopes), value


def train(params, batches, rate):
    losses = []
    for tokens in batches:
        params, value = step(params, tokens, rate)
        losses.append(value)
    return params, losses


{_NUMBERS}args = (random_params(), batches[0], 0.2)
"""

STARTER = f"""\
def attend(h, qkv):
    q, k, v = jnp.split(h @ qkv, 3, axis=-1)
    scores = q @ k.T / h.shape[-1] ** 0.5
    before = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(before, scores, -1e9)) @ v


def row_loss(params, row):
    table = params["table"]
    h = jax.nn.one_hot(row[:-1], len(table)) @ table
    for n in range(len(params["qkv"])):
        h = h + attend(h, params["qkv"][n])
        h = h + jnp.tanh(h @ params["up"][n]) @ params["down"][n]
    logits = jax.nn.log_softmax(h @ table.T)
    return -jnp.take_along_axis(logits, row[1:, None], 1).mean()


def make_step(tokens, rate):
    @jax.jit
    def step(params):
        def loss(params):
            return sum(row_loss(params, row) for row in tokens) / len(tokens)

        value, slopes = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, s: p - rate * s, params, slopes), value

    return step


def train(params, batches, rate):
    losses = []
    for tokens in batches:
        step = make_step(tokens, rate)
        params, value = step(params)
        losses.append(value)
    return params, losses


{_NUMBERS}step = make_step(batches[0], 0.2)
args = (random_params(),)
"""

PUZZLE = Puzzle(
    id="30.3",
    title="A small transformer",
    task="""\
A transformer of three layers, with **six faults** of this course: it is compiled for each batch,
the tokens are baked in, the rows of a batch are written out, the layers are written out, words
are looked up by a product with a one-hot matrix, and the old parameters keep their memory. Fix
all six. `train(params, batches, rate)` must return the same parameters and losses as now, and
`step(*args)` is one call of your step. It may use up the arrays that it is given.
""",
    starter=STARTER,
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("for tokens in batches:\n", "for tokens in batches[:1]:\n")),
            "One loss for each batch",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ("@partial(jax.jit, donate_argnums=0)\ndef step(", "def one_step("),
                (
                    "        params, value = step(params, tokens, rate)",
                    "        anew = jax.jit(lambda *xs: one_step(*xs))\n"
                    "        params, value = anew(params, tokens, rate)",
                ),
                (_NUMBERS, _NUMBERS + "step = jax.jit(one_step, donate_argnums=0)\n"),
            ),
            "is compiled anew",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ('params["table"][row[:-1]]', 'jax.nn.one_hot(row[:-1], 256) @ params["table"]'),
            ),
            "look it up by its index",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "jax.vmap(row_loss, in_axes=(None, 0))(params, tokens).mean()",
                    "sum(row_loss(params, row) for row in tokens) / len(tokens)",
                ),
            ),
            "A Python loop was written out",
        ),
        WrongAnswer(
            edited(SOLUTION, ("@partial(jax.jit, donate_argnums=0)", "@jax.jit")),
            "gives their memory back",
        ),
    ),
    cheats=(
        WrongAnswer(
            edited(SOLUTION, ("def step(", "def good("), ("= step(params,", "= good(params,"))
            + "step = jax.jit(lambda params, *_: (params, 0.0), donate_argnums=0)\n",
            "forwards and back",
        ),
    ),
    hints=(
        "`%%recompiles`, `%jaxpr --captured`, `%compile --cost` and `--memory` show the faults.",
        "Write the loss of one row with a `lax.scan` over the layers, then map it over the rows.",
        "`step(params, tokens, rate)` is jitted once with `donate_argnums=0`, and a word's vector "
        'is `params["table"][row]`.',
    ),
    check=check,
    seconds=60.0,
    after="The same numbers come out: of a program that is smaller, is made once, and does less.",
)
