"""Puzzle 30.1."""

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

LAYERS = 16


def check(step: Function, args: tuple[Any, ...], train: Function) -> Facts:
    import jax.numpy as jnp

    random = np.random.default_rng(0)
    weights = (random.normal(size=(LAYERS, 8, 8)) / 3).astype(np.float32)
    data = random.normal(size=(40, 8)).astype(np.float32)
    rates = (0.11, 0.07, 0.03)
    with jaxlens.recompiles() as log:
        trained = train(jnp.asarray(weights), jnp.asarray(data), rates)
    hint = "Two steps of gradient descent at each rate, from the weights that were given."
    yield close("weights after training", trained, _trained(weights, data, rates), hint=hint)
    hint = (
        "A function that is jitted anew has an empty cache."
        if log.compiles >= 2 * len(rates)
        else "The rate is a part of the program. What if it were an argument that is traced?"
    )
    yield at_most("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)
    products = jaxlens.receipt(step, *args).primitives.get("dot_general", 0)
    hint = "A Python loop is written out layer by layer. Which loop of JAX's stays a loop?"
    proof = Proof(jaxlens.jaxpr, (step, *args))
    yield at_most("products in the program", products, 12, hint=hint, evidence=proof)
    hint = "`step(*args)` is a step of `train`: a layer has one product forwards and two back."
    yield at_least("products of a step", products, 3, hint=hint, evidence=proof)
    captured = jaxlens.captured(step, *args)
    hint = "The data are a constant in the program, as step closes over them. Pass them."
    proof = Proof(jaxlens.captured, (step, *args))
    yield at_most("bytes baked in", captured.bytes, 1000, unit="B", hint=hint, evidence=proof)
    memory = jaxlens.memory(step, *args)
    used = any(donation.donated and donation.result for donation in memory.donations)
    hint = "The old weights are needed no more. `donate_argnums` gives their memory back."
    proof = Proof(jaxlens.memory, (step, *args))
    actual = "reused" if used else "kept beside the new"
    yield Fact("memory of the old weights", "reused", actual, used, hint, proof)


def _trained(weights: Any, data: Any, rates: tuple[float, ...]) -> Any:
    """Trains in NumPy."""
    weights = weights.astype(np.float64)
    for rate in (rate for rate in rates for _ in range(2)):
        kept = [data.astype(np.float64)]
        for w in weights:
            kept.append(np.tanh(kept[-1] @ w))
        back = 2 * kept[-1] / kept[-1].size
        slopes = np.zeros_like(weights)
        for n in reversed(range(len(weights))):
            back = back * (1 - kept[n + 1] ** 2)
            slopes[n] = kept[n].T @ back
            back = back @ weights[n].T
        weights = weights - rate * slopes
    return weights


SOLUTION = """\
from functools import partial


@partial(jax.jit, donate_argnums=0)
def step(ws, data, rate):
    def loss(ws):
        def layer(h, w):
            return jnp.tanh(h @ w), None

        h, _ = lax.scan(layer, data, ws)
        return (h**2).mean()

    return ws - rate * jax.grad(loss)(ws)


def train(ws, data, rates):
    for rate in rates:
        for _ in range(2):
            ws = step(ws, data, rate)
    return ws


args = (jnp.full((16, 8, 8), 0.1, jnp.float32), jnp.ones((40, 8)), 0.1)
"""

_UNROLLED = (
    """\
        def layer(h, w):
            return jnp.tanh(h @ w), None

        h, _ = lax.scan(layer, data, ws)
""",
    """\
        h = data
        for w in ws:
            h = jnp.tanh(h @ w)
""",
)

_DATA_CLOSED_OVER = """\
from functools import partial


def make_step(data):
    @partial(jax.jit, donate_argnums=0)
    def step(ws, rate):
        def loss(ws):
            h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), data, ws)
            return (h**2).mean()

        return ws - rate * jax.grad(loss)(ws)

    return step


def train(ws, data, rates):
    step = make_step(data)
    for rate in rates:
        for _ in range(2):
            ws = step(ws, rate)
    return ws


step = make_step(jnp.ones((40, 8)))
args = (jnp.full((16, 8, 8), 0.1, jnp.float32), 0.1)
"""

PUZZLE = Puzzle(
    id="30.1",
    title="Four faults",
    task="""\
`train` is right, and slow. Its step has **four faults**: it is compiled more than once, a loop is
written out, the data are baked into the program, and the old weights keep their memory. Fix all
four. `train(ws, data, rates)` must return the same weights as now. Let `step(*args)` be one call
of your step, for the lenses to look at. It may use up the arrays that it is given.
""",
    starter="""\
def make_step(data, rate):
    @jax.jit
    def step(ws):
        def loss(ws):
            h = data
            for w in ws:
                h = jnp.tanh(h @ w)
            return (h**2).mean()

        return ws - rate * jax.grad(loss)(ws)

    return step


def train(ws, data, rates):
    for rate in rates:
        step = make_step(data, rate)
        for _ in range(2):
            ws = step(ws)
    return ws


step = make_step(jnp.ones((40, 8)), 0.1)
args = (jnp.full((16, 8, 8), 0.1, jnp.float32),)
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(
                SOLUTION,
                ("donate_argnums=0", 'donate_argnums=0, static_argnames="rate"'),
                ("step(ws, data, rate)\n    return ws", "step(ws, data, rate=rate)\n    return ws"),
                ("jnp.ones((40, 8)), 0.1)", "jnp.ones((40, 8)))\nstep = partial(step, rate=0.1)"),
            ),
            "compiles, wanted at most 1",
        ),
        WrongAnswer(edited(SOLUTION, _UNROLLED), "written out layer by layer"),
        WrongAnswer(
            _DATA_CLOSED_OVER,
            "baked in",
        ),
        WrongAnswer(
            edited(SOLUTION, ("@partial(jax.jit, donate_argnums=0)", "@jax.jit")),
            "gives their memory",
        ),
        WrongAnswer(edited(SOLUTION, ("range(2)", "range(1)")), "Two steps of gradient descent"),
    ),
    cheats=(
        WrongAnswer(
            edited(SOLUTION, ("def step(", "def good("), ("= step(ws, data", "= good(ws, data"))
            + "step = jax.jit(lambda ws, *_: 2 * ws, donate_argnums=0)\n",
            "products",
        ),
    ),
    hints=(
        "`%%recompiles`, `%jaxpr`, `%jaxpr --captured` and `%compile --memory` show one each.",
        "The data and the rate can be arguments. Which argument does nobody need after a step?",
        "Jit `step(ws, data, rate)` once with `donate_argnums=0`, and scan over the layers.",
    ),
    check=check,
    seconds=30.0,
    after="Four lenses, four facts, each fixed at its cause: one small program that is made once.",
)
