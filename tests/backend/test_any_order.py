"""Questions about a capture have the same answers in any order as when asked alone."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.core import numpy as cnp
from jaxlens.errors import UnavailableError
from jaxlens.questions.memory.measure.checkpoint import attempts
from jaxlens.questions.trace.row import all_rungs

X = jnp.arange(3.0)


def plain():
    def loss(params, scale, x, train, kind):
        if train:
            x = x * scale
        return (getattr(jnp, kind)(x) * params["w"]).sum()

    bound = functools.partial(jax.grad(loss), {"w": X}, 2.0)
    return bound, (X, True), {"kind": "tanh"}


def jitted():
    @functools.partial(jax.jit, static_argnums=1, donate_argnums=0)
    def step(x, n):
        return [x * n, jnp.full(n, x[0])]

    return step, (X + 1, 3), {}


def method():
    class Model:
        def __init__(self):
            self.w = X
            self.seen = None

        def __call__(self, x):
            self.seen = x + self.w
            return jnp.sin(self.seen)

    return jax.vmap(Model()), (jnp.ones((2, 3)),), {}


def equinox():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    return jax.vmap(model), (jnp.ones((5, 3)),), {}


def nnx():
    flax = pytest.importorskip("flax.nnx")
    model = flax.Linear(3, 2, rngs=flax.Rngs(0))
    return model, (jnp.ones((5, 3)),), {}


def core():
    from jaxlens import core

    def f(w, x):
        return cnp.sum(cnp.tanh(x * w))

    return (
        core.vmap(core.grad(f), in_axes=(None, 0)),
        (core.array([1.0, 2.0]), jnp.ones((4, 2))),
        {},
    )


def core_by_its_argument():
    from jaxlens import core

    def f(x):
        return x * 2 + 1

    return core.vmap(f), (core.array([1.0, 2.0]),), {}


def ladder(cap):
    try:
        return [rung.jaxpr.text for rung in all_rungs(cap)]
    except UnavailableError as error:
        return str(error)


def trials(cap):
    try:
        return [name for name, *_ in attempts(cap.driver.live(traces=True))]
    except UnavailableError as error:
        return str(error)


# How far the program was taken, and what needs more of the call than its program.
QUESTIONS = {
    "jaxpr": lambda cap: cap.jaxpr.text,
    "optimized": lambda cap: [node.opcode for node in cap.optimized.module.nodes()],
    # Whether this look traced the function again is what depends on the order.
    "tape": lambda cap: str(jaxlens.tape(cap)).partition("\n\n- For this, ")[0],
    "ladder": ladder,
    "trials": trials,
    "verdict": lambda cap: cap.verdict,
    "constants": lambda cap: cap.constants,
    "run": lambda cap: [leaf.tolist() for leaf in jax.tree.leaves(cap.driver.run(1).outputs)],
}
KINDS = (plain, jitted, method, equinox, nnx, core, core_by_its_argument)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_any_order(kind):
    """Each question is the first once, and comes before and after each other one."""
    f, args, kwargs = kind()
    alone = {name: ask(jaxlens.capture(f, *args, **kwargs)) for name, ask in QUESTIONS.items()}
    names = list(QUESTIONS)
    for n in range(len(names)):
        order = (names[n:] + names[:n])[:: -1 if n % 2 else 1]
        cap = jaxlens.capture(f, *args, **kwargs)
        for name in order:
            assert QUESTIONS[name](cap) == alone[name], f"{name} in {order}"


def test_arrays_are_let_go_of_and_the_call_is_traced_again():
    large = jnp.ones((600, 600))
    seen = weakref.ref(large)
    cap = jaxlens.capture(jax.vmap(jax.grad(lambda x: (x**2).sum())), large)
    assert cap.optimized.text
    del large
    gc.collect()
    assert seen() is None
    assert [str(rung.program.inputs[0].type) for rung in all_rungs(cap)] == ["f32[600]"] * 2 + [
        "f32[600,600]"
    ]
    assert "f32[600]" in str(jaxlens.tape(cap))


def test_a_tape_made_late_leaves_the_users_object_alone():
    class Model:
        seen = None

        def __call__(self, x):
            self.seen = x * 2
            return self.seen

    model = Model()
    cap = jaxlens.capture(model, X)
    assert cap.optimized.text
    assert "self" in str(jaxlens.tape(cap))
    assert model.seen is None


def test_a_trial_is_no_call_of_its_own():
    def loss(x):
        return jnp.sin(jnp.sin(x)).sum()

    cap = jaxlens.capture(jax.grad(loss), X)
    trial = next(iter(attempts(cap.driver.live(traces=True))))[-1]()
    with pytest.raises(UnavailableError, match="traced for a trial only"):
        str(jaxlens.tape(trial))
