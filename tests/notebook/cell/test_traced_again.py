"""A look traces once and runs nothing, unless its answer says how much more it did."""

import io
from contextlib import redirect_stdout

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.report import traced_again

pytestmark = pytest.mark.backend

W, X = jnp.full((4, 4), 0.1), jnp.ones((2, 4))
BOX = list(range(1000))
TRACED, RAN = [], []


def note():
    """What tracing does to the user's world: it appends to a list, and pops from another."""
    TRACED.append(BOX.pop())


def loss(w, x):
    note()
    y = jnp.tanh(jnp.tanh(x @ w) @ w)
    jax.debug.callback(RAN.append, y.sum())
    return jnp.log(y).sum()


def step(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)


def done(view):
    """Traces and runs of what makes a view, with its text."""
    TRACED.clear()
    RAN.clear()
    shown = view()
    text = str(shown)
    jax.effects_barrier()
    return len(TRACED), len(RAN), text


def says(text, traces):
    words = " ".join(text.split())
    again = traced_again("step", traces)
    return again in words if again else "traced again" not in words and "times more" not in words


VERBS = {
    "times": (1, 0),
    "first_nan": (1, 1),
    "values": (1, 1),
    "key": (0, 0),
    "ladder": (3, 0),  # as its magic: the jit is a rung of its own
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_what_it_traced_again(verb):
    f, w = jax.jit(step, donate_argnums=0), W + 0
    traces, runs, text = done(lambda: getattr(jaxlens, verb)(f, w, X))
    assert (traces, runs) == VERBS[verb]
    assert says(text, traces - 1)
    assert not w.is_deleted()


OPTIONS = {
    "memory": (lambda cap: jaxlens.memory(cap, checkpoint=True), 6, 0),  # five policies
    "fits": (lambda cap: jaxlens.fits(cap, device="100 B"), 6, 0),
    "run": (lambda cap: jaxlens.cost(cap, run=1), 1, 2),  # one is not counted, as it says
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_says_what_it_traced_again(name):
    view, traces, runs = OPTIONS[name]
    w = W + 0
    cap = jaxlens.capture(jax.jit(step, donate_argnums=0), w, X)
    *found, text = done(lambda: view(cap))
    assert found == [traces, runs]
    assert says(text, traces - 1)
    assert not w.is_deleted()


MAGICS = {
    "%%compile --memory --checkpoint": 6,
    "%%jaxpr --tape": 1,
    "%%jaxpr --ladder": 3,
}


@pytest.mark.parametrize("line", MAGICS)
def test_a_magic_says_what_it_traced_again(shell, run, line):
    w = W + 0
    shell.push({"step": jax.jit(step, donate_argnums=0), "w": w, "x": X})
    traces, runs, _ = done(lambda: run(f"{line} -o view\nstep(w, x)"))
    assert (traces, runs) == (MAGICS[line], 0)
    assert says(str(shell.user_ns["view"]), traces - 1)
    assert not w.is_deleted()


def test_a_cure_of_a_recompile_says_that_it_was_traced():
    def step(x, n):
        note()
        return x * n

    f = jax.jit(step, static_argnums=1)

    def calls():
        with jaxlens.recompiles() as log, redirect_stdout(io.StringIO()):
            for n in (2, 3, 5):
                f(X, n)
        return log

    traces, _, text = done(calls)
    assert traces == 4  # three of them are the calls
    assert says(text, 1)


def test_a_failure_says_how_often_it_was_traced_again():
    def step(x, n):
        note()
        return jnp.zeros(n) + x

    TRACED.clear()
    with pytest.raises(TypeError) as failed:
        str(jaxlens.jaxpr(jax.jit(step), 1.0, 3))
    assert len(TRACED) == 2  # once with n static
    assert says(failed.value.__notes__[-1], 1)
    assert says(str(jaxlens.explain(failed.value)), 1)


def acts(w, x):
    for _ in range(6):
        x = jnp.tanh(x @ w)
        io_callback(RAN.append, None, x.sum(), ordered=True)
    return x


def test_an_effect_is_not_repeated():
    cap = jaxlens.capture(acts, W, X)
    said = "its io_callback would act each time"
    RAN.clear()
    with pytest.raises(UnavailableError, match=said):
        str(jaxlens.numerics(cap))
    assert not RAN
