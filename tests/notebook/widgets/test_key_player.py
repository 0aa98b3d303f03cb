"""The key player's prediction, cache hit or miss, compared with the call itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

X = np.ones((3, 4), np.float32)


@pytest.fixture
def step():
    @functools.partial(jax.jit, static_argnames=("n", "act"))
    def step(params, x, rate, n=1, act=None):
        return (x @ params["w"]).sum() * n * rate

    step({"w": np.ones((4, 2), np.float32)}, X, 0.1, n=2)
    return step


@pytest.fixture
def player(step):
    widget = jaxlens.KeyPlayer(step, {"w": np.ones((4, 2), np.float32)}, X, 0.1, n=2)
    yield widget
    widget.close()


def verdict(player):
    return player.children[-1].value


def test_every_argument_has_a_row(player):
    labels = [row.children[0].value for row in player.children[:-2]]
    assert labels == ["params['w']", "x", "rate", "n"]
    assert player.answer.hit is True
    assert "<b>hit</b>" in verdict(player)


def test_shape_dtype_weak_type_and_static_value(player, step):
    with jaxlens.recompiles() as log:
        for name, text, weak, reason in (
            ("x", "f32[5,4]", None, "x: f32[5,4], was f32[3,4]"),
            ("x", "f16[3,4]", None, "x: f16[3,4], was f32[3,4]"),
            ("rate", "f32[]", False, "rate: f32[], was weak f32[]"),
            ("n", "4", None, "n: static value 4, was 2"),
        ):
            player.reset()
            player.write(name, text, weak)
            assert player.answer.hit is False
            assert player.answer.reasons == (reason,)
            assert f"<code>{reason}</code>" in verdict(player)
        player.reset()
        assert player.answer.hit is True
    assert log.log.calls == ()
    assert step._cache_size() == 1


def test_what_it_says_is_what_the_call_does(player, step):
    player.write("x", "f32[9,4]")
    assert player.answer.hit is False
    step({"w": np.ones((4, 2), np.float32)}, np.ones((9, 4), np.float32), 0.1, n=2)
    player.write("x", "f32[3,4]")
    player.write("x", "f32[9,4]")
    assert player.answer.hit is True


def test_what_cannot_be_read_is_told(player):
    player.write("x", "f33[3]")
    assert player.answer is None
    assert 'role="alert"' in verdict(player)
    player.write("x", "f32[3,4]")
    player.write("n", "1 +")
    assert "expected a Python literal" in verdict(player)
    with pytest.raises(jaxlens.LensError, match="no argument 'y'; choose from"):
        player.write("y", "f32[]")


def test_text_from_the_program_is_escaped(step):
    player = jaxlens.KeyPlayer(step, {"<b>": jnp.ones(3), "w": X}, X, 0.1, n=2)
    assert "<b>'" not in verdict(player)
    assert "&lt;b&gt;" in verdict(player)
    player.close()


def test_a_committed_array_stays_where_it_lies(step):
    here = jax.device_put(X, jax.devices()[0])
    player = jaxlens.KeyPlayer(step, {"w": np.ones((4, 2), np.float32)}, here, 0.1, n=2)
    assert player.answer.layer == "compile"
    player.write("x", "f32[7,4]")
    assert player.answer.layer == "trace"
    player.close()


def test_a_static_value_that_is_no_literal_is_not_edited(step):
    player = jaxlens.KeyPlayer(step, {"w": X.T}, X, 0.1, act=jnp.tanh)
    row = next(r for r in player.children if r.children and r.children[0].value == "act")
    assert row.children[1].disabled
    player.close()
