"""Arguments from written shapes, and transforms applied to a function."""

import jax
import jax.numpy as jnp
import pytest

from jaxlens.call.arguments.written_shapes import arguments
from jaxlens.call.transforms import transformed
from jaxlens.errors import OptionError

pytestmark = pytest.mark.reads_jax

S = jax.ShapeDtypeStruct


def test_shapes_scalars_and_statics():
    args, kwargs = arguments("f32[8,128], float16[3], i32[], flag=True, mode='a', none=None")
    assert args == (S((8, 128), jnp.float32), S((3,), jnp.float16), S((), jnp.int32))
    assert kwargs == {"flag": True, "mode": "a", "none": None}


def test_shapes_nest():
    _, kwargs = arguments("p={'w': f32[4,4], 'b': [bf16[], (pred[2],)]}, u=u8[0]")
    assert kwargs["p"] == {
        "w": S((4, 4), jnp.float32),
        "b": [S((), jnp.bfloat16), (S((2,), bool),)],
    }
    assert kwargs["u"] == S((0,), jnp.uint8)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("f33[8]", "no dtype 'f33' in --in; did you mean 'f32'?"),
        ("f32", "got 'f32' (a scalar is f32[])"),
        ("f32[n]", "got '[n]' (a dimension is a whole number)"),
        ("f32[2.5]", "got '[2.5]' (a dimension is a whole number)"),
        ("f32[8", "got 'f32[8'"),
        ("f32[1]) + (f32[2]", "(unbalanced parentheses)"),
        ("**{}", "(** is not a shape)"),
        ("__import__('os').getcwd()", "(neither a shape nor a literal)"),
        ("x=open('f')", "(neither a shape nor a literal)"),
    ],
)
def test_other_text_is_no_shape_and_is_not_run(text, why):
    with pytest.raises(OptionError) as error:
        arguments(text)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def loss(params, x, mode="a"):
    return jnp.tanh(x @ params["w"]).sum()


ARGS = ({"w": jnp.full((3, 4), 0.5)}, jnp.full((2, 3), 0.1))


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ((("grad", ""),), jax.grad(loss)),
        ((("grad", "x"),), jax.grad(loss, 1)),
        ((("grad", "0,1"),), jax.grad(loss, (0, 1))),
        ((("vmap", "None,0"), ("grad", "params")), jax.vmap(jax.grad(loss), (None, 0))),
        ((("vmap", "None, 0"),), jax.vmap(loss, (None, 0))),
        ((("jit", ""), ("grad", "")), jax.jit(jax.grad(loss))),
    ],
)
def test_transforms_are_jaxs_own(asked, same):
    f, kwargs = transformed(loss, ARGS, {}, asked)
    assert kwargs == {}
    args = (ARGS[0], jnp.stack([ARGS[1]] * 5)) if asked[0][0] == "vmap" else ARGS
    assert jax.tree.map(jnp.array_equal, f(*args), same(*args))
    assert all(jax.tree.leaves(jax.tree.map(jnp.array_equal, f(*args), same(*args))))


def test_jvp_takes_its_tangents_as_inputs():
    f, kwargs = transformed(loss, ARGS, {"mode": "b"}, (("jvp", ""),))
    assert kwargs["mode"] == "b"
    tangents = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), kwargs["tangents"])
    assert sorted(tangents) == ["params['w']", "x"]
    value, slope = f(*ARGS, mode="b", tangents=tangents)
    expected = jax.jvp(loss, ARGS, jax.tree.map(jnp.ones_like, ARGS))
    assert jnp.allclose(value, expected[0])
    assert jnp.allclose(slope, expected[1])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("grad", "w"), "--grad: no positional argument 'w'; choose from params, x, mode"),
        (("vmap", "first"), "--vmap takes axes such as 0 or 0,None, got 'first'"),
    ],
)
def test_a_value_that_does_not_fit(asked, says):
    with pytest.raises(OptionError) as error:
        transformed(loss, ARGS, {}, (asked,))
    assert str(error.value) == says


def test_a_static_leaf_that_comes_back_is_no_result():
    from jaxlens.stages.driver import capture

    def update(model, x):
        return {**model, "w": model["w"] + x}

    model = {"w": jnp.ones(3), "activation": jnp.tanh, "name": "m"}
    found = capture(update, (model, jnp.ones(3)))
    assert [o.name for o in found.outputs] == ["result['w']"]
    assert capture(lambda model: "text", (model,)).outputs == ()
