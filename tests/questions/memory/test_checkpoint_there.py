"""Whether the `jax.checkpoint` that a program has helps, by trying the program without it."""

from collections import Counter

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.questions.memory.measure.checkpoint import attempts

pytestmark = pytest.mark.backend
W, X = jnp.ones((4, 32, 32)), jnp.ones((64, 32))


def layer(x, w):
    return jnp.tanh(jnp.sin(x @ w) @ w)


def whole(under):
    return jax.grad(under(lambda w, x: layer(layer(x, w[0]), w[1]).sum()))


def in_a_scan(under):
    body = under(lambda x, w: (layer(x, w), None))
    return jax.grad(lambda w, x: jax.lax.scan(body, x, w)[0].sum())


def unrolled(under):
    def loss(w, x):
        for n in range(4):
            x = under(layer)(x, w[n])
        return x.sum()

    return jax.jit(jax.value_and_grad(loss))


def in_a_branch(under):
    def loss(w, x):
        return jax.lax.cond(x[0, 0] > 0, under(layer), lambda x, w: x, x, w[0]).sum()

    return jax.grad(loss)


def in_a_jitted_function(under):
    return jax.grad(lambda w, x: jax.jit(under(layer))(x, w[0]).sum())


def in_another(under):
    return jax.grad(under(lambda w, x: under(layer)(x, w[0]).sum()))


def with_a_policy(under):
    policy = jax.checkpoint_policies.dots_saveable
    kept = jax.checkpoint(layer, policy=policy) if under is jax.checkpoint else layer
    return jax.grad(lambda w, x: kept(x, w[0]).sum())


EVERY = (
    whole,
    in_a_scan,
    unrolled,
    in_a_branch,
    in_a_jitted_function,
    in_another,
    with_a_policy,
)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_the_program_without_is_the_one_that_never_had_it(make):
    name, _, without = next(
        attempts(jaxlens.capture(make(jax.checkpoint), W, X).driver.live(traces=True))
    )
    assert name == "nothing (those there removed)"
    plain = jaxlens.capture(make(lambda f: f), W, X)
    found, wanted = (
        Counter(node.opcode for node in program.jaxpr.module.nodes() if node.opcode != "jit")
        for program in (without(), plain)
    )
    assert found == wanted
    assert next(attempts(plain.driver.live(traces=True)))[0] == "the whole function"


@pytest.mark.parametrize("make", [in_a_scan, unrolled], ids=lambda make: make.__name__)
def test_the_sentence_says_which_is_better_and_by_how_much(make):
    """In the scan it saves; in the unrolled one it depends on the version and the device."""
    w, x = jnp.ones((4, 128, 128)), jnp.ones((512, 128))
    program = jaxlens.capture(make(jax.checkpoint), w, x)
    answer = jaxlens.memory(program, checkpoint=True)
    first = answer.findings[0].text
    peak = jaxlens.memory(jaxlens.capture(make(lambda f: f), w, x)).peak
    change = peak / answer.peak - 1
    verb = "saves" if change > 0 else "costs"
    words = f"{abs(change):.0%} {'less' if change < 0 else 'more'}, and flops"
    assert first.startswith(
        f"The jax.checkpoint that is there {verb} memory: without it the peak is "
    )
    assert words in first
