"""What a watch of cells reads of each compile, beside JAX's own figures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.questions.session.measure import CellWatch

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


@pytest.fixture
def watch():
    watch = CellWatch(lambda: "")
    watch.start()
    yield watch
    watch.stop()


def compiled(watch):
    return watch.split().log().compiles


def analysed(f, *args):
    stats = f.lower(*args).compile().memory_analysis()
    sizes = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    return sizes - stats.alias_size_in_bytes


def test_the_bytes_are_those_of_jax(watch):
    def step(w, x):
        return w - jnp.tanh(x @ w).sum() * jnp.cos(x.T @ x) @ w

    w, x = np.ones((64, 32), np.float32), np.ones((128, 64), np.float32)
    for donated in ((), (0,)):
        f = jax.jit(step, donate_argnums=donated)
        f(jnp.asarray(w), x)
        (call,) = compiled(watch)
        assert call.bytes == analysed(f, w, x)
        assert call.bytes >= w.nbytes + x.nbytes
        compiled(watch)


def test_captured_arrays_that_are_large_together(watch):
    large, small = jnp.ones((1500, 2000)), jnp.ones((10, 10))

    @jax.jit
    def f(x):
        return jax.lax.scan(lambda c, _: (c @ large.T @ large, small.sum()), x, length=2)

    x = np.ones((2, 2000), np.float32)
    f(x)
    (call,) = compiled(watch)
    assert [(a.name, a.bytes) for a in call.captured] == [("large", 12_000_000), ("small", 400)]
    # XLA does not count what is in the executable
    assert call.bytes == analysed(f, x) + large.nbytes + small.nbytes


def test_a_split_takes_what_has_ended(watch):
    f = jax.jit(lambda x: x * 3)
    low = f.lower(np.ones(3))
    assert compiled(watch) == ()
    low.compile()
    (call,) = compiled(watch)
    assert [step.kind for step in call.steps] == ["trace", "lower", "compile"]
    assert compiled(watch) == ()


def test_a_note_belongs_to_the_cell_in_which_it_was_made(watch):
    watch.trouble("a call could not be read")
    assert watch.split().log().trouble == ("a call could not be read",)
    assert watch.split().log().trouble == ()
