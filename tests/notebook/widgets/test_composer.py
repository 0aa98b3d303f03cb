"""The composer: transforms in any order, their arguments, and one-line errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

W, X = np.ones((3, 4), np.float32), np.ones(3, np.float32)
ran = []


def loss(w, x):
    ran.append(isinstance(x, jax.core.Tracer))
    return jnp.sum(jnp.tanh(x @ w))


@pytest.fixture
def composer():
    widget = jaxlens.Composer(loss, W, X)
    yield widget
    widget.close()


UNJITTED = ", under jit (not jitted, it runs op by op)"


def first_line(composer) -> str:
    return str(composer.view).splitlines()[0].removesuffix(UNJITTED)


def test_order_and_axes(composer) -> None:
    assert first_line(composer) == "loss(w, x) with w f32[3,4], x f32[3] on cpu"
    composer.put("grad", "x")
    assert first_line(composer).startswith("grad(loss)(w, x)")
    composer.put("vmap", "None,1", 5)
    assert first_line(composer) == "vmap(grad(loss))(w, x) with w f32[3,4], x f32[3,5] on cpu"
    assert composer.view.equations[0] == len(jax.make_jaxpr(loss)(W, X).jaxpr.eqns)
    f = jax.vmap(jax.grad(loss, 1), (None, 1))
    eqns = jax.make_jaxpr(f)(W, np.ones((3, 5), np.float32)).jaxpr.eqns
    assert composer.view.equations[-1] == len(eqns)
    assert all(ran)  # traced, and never run


def test_the_other_order(composer) -> None:
    composer.put("vmap", "None,0")
    composer.put("jit")
    assert first_line(composer).startswith("jit(vmap(loss))(w, x)")
    composer.put("jvp")
    assert "tangents" in first_line(composer)


def test_what_does_not_fit_is_told_and_the_rest_stays(composer) -> None:
    before = composer.view
    composer.put("vmap", "0,0,0")
    assert composer.view is before
    assert "an axis for each of 2 arguments, got 3: 0,0" in composer._room.words
    composer._rows[0]._value.value = "0"
    assert composer._room.words == ""
    composer.put("grad")  # of what is no scalar: JAX's own words
    assert "TypeError: Gradient only defined for scalar" in composer._room.words


def test_taking_off(composer) -> None:
    composer.put("grad")
    composer.put("vmap")
    composer._take_off(composer._rows[1])
    assert composer.transforms == [("vmap", "", 8)]
    assert first_line(composer).startswith("vmap(loss)")


def test_no_name_is_markup() -> None:
    def refuses(x):
        raise ValueError("<script>alert(1)</script>")

    widget = jaxlens.Composer(refuses, X)
    assert "<script>" not in widget._room.words
    assert "ValueError" in widget._room.words
    widget.close()
