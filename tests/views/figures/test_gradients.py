"""Which equations come after the gradients: told by the name stack and by dataflow alone."""

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.views.figures.jaxpr import figure


def after(f, *args):
    """The opcodes after the gradients, in the program's order, and those of all equations."""
    module = jaxlens.capture(f, *args).jaxpr.module
    opcodes = {node.id: node.opcode for node in module.nodes()}
    return [opcodes[id] for id in figure(module).after]


def loss(w, x):
    return jnp.sin(x * w).sum()


def halved(g):
    return jnp.where(g > 1, g / 2, g)


X = jnp.ones(3)


def test_an_update_comes_after_the_gradients_and_a_counter_is_unknown():
    def step(w, n, x):
        return w - 0.5 * jax.grad(loss)(w, x), n + 1

    assert after(step, X, 0, X) == ["mul", "sub"]


def test_gradients_of_a_jitted_call_and_of_a_loops_body_are_followed():
    gradient = jax.jit(jax.grad(loss))
    assert after(lambda w: w - gradient(w, X), X) == ["sub"]

    def descend(w, x):
        return w - jax.grad(loss)(w, x), None

    assert after(lambda w: jax.lax.scan(descend, w, jnp.ones((4, 3)))[0] * 2, X) == ["mul", "sub"]


def test_a_function_that_is_called_before_too_is_unknown():
    def step(w):
        return halved(jax.grad(loss)(w, X))

    assert after(step, X) == ["gt", "div", "jit", "select_n"]
    assert after(lambda w: step(halved(w)), X) == ["gt", "div", "jit"]


def test_without_a_backward_pass_there_is_none():
    assert after(loss, X, X) == []
