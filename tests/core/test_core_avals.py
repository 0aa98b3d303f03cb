"""Types of arrays: promotion as JAX has it, for all pairs of dtypes, weak and strong."""

import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.kernel.types import (
    ShapedArray,
    bfloat16,
    canonical,
    float0,
    short_name,
    tangent_aval,
)
from jaxlens.core.transforms.promotion import broadcast_shapes, promote

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
DTYPES = [*map(np.dtype, NAMES), bfloat16]
TYPES = [(dtype, False) for dtype in DTYPES] + [
    (np.dtype(name), True) for name in ("int64", "float64", "complex128")
]


def of_jax(dtype, weak):
    """JAX's array of a type: a Python number where it is weak."""
    return np.zeros((), dtype).item() if weak else np.zeros((2,), dtype)


@pytest.mark.parametrize("x64", [False, True])
def test_promotion_is_jax_s_for_all_pairs(x64):
    with jax.enable_x64(x64), core.enable_x64(x64):
        for a in TYPES:
            for b in TYPES:
                pair = of_jax(*a), of_jax(*b)
                expected = jax.dtypes.result_type(*pair, return_weak_type_flag=True)
                ours = [ShapedArray((), canonical(dtype), weak) for dtype, weak in (a, b)]
                assert promote(*ours) == expected, (a, b)


def test_promotion_of_several_does_not_depend_on_their_order():
    bf16, f16, weak = (
        ShapedArray((), bfloat16),
        ShapedArray((), np.dtype("f2")),
        ShapedArray((), np.dtype("f4"), True),
    )
    assert promote(bf16, weak) == (bfloat16, False)
    assert promote(bf16, f16) == promote(f16, weak, bf16) == (np.dtype("f4"), False)


def test_equal_types_are_equal():
    a = ShapedArray((2, 3), np.dtype("float32"))
    assert a == ShapedArray((np.int64(2), np.int64(3)), "float32")
    assert a != ShapedArray((2, 3), np.dtype("float32"), True)
    assert a == pickle.loads(pickle.dumps(a))
    assert a.update(weak_type=True).update(weak_type=False) == a
    assert (a.ndim, a.size, a.str_short()) == (2, 6, "f32[2,3]")
    assert all(type(n) is int for n in ShapedArray((np.int64(7), 5), np.dtype("i2")).shape)
    assert repr(a.update(weak_type=True)) == "ShapedArray(f32[2,3], weak_type=True)"


def test_short_names_are_jax_s():
    for dtype in DTYPES:
        aval = jax.core.ShapedArray((), dtype)
        assert f"{short_name(dtype)}[]" == aval.str_short(short_dtypes=True)
    assert short_name(float0) == "float0"


def test_64_bits_only_where_they_are_on():
    assert canonical("float64") == np.float32
    assert canonical(np.dtype(">f8")) == np.float32
    with core.enable_x64():
        assert canonical("float64") == np.float64
        with core.enable_x64(False):
            assert canonical(np.int64) == np.int32
    assert canonical(bool) == np.bool_
    assert canonical(ml_dtypes.bfloat16) == bfloat16


@pytest.mark.parametrize("dtype", ["U3", "O", "M8[s]", "V4"])
def test_elements_that_are_no_numbers_are_refused(dtype):
    with pytest.raises(TypeError, match="numbers or bool"):
        canonical(dtype)
    with pytest.raises(TypeError, match=r"ndarray of .* as an array: argument x"):
        core.make_jaxpr(lambda x: x)(np.zeros(2, dtype))


def test_tangents_of_integers_have_no_numbers():
    assert tangent_aval(ShapedArray((2,), np.dtype("i4"))) == ShapedArray((2,), float0)
    weak = ShapedArray((), np.dtype("f4"), True)
    assert tangent_aval(weak) is weak


def test_shapes_that_do_not_broadcast_are_named():
    assert broadcast_shapes((3, 1), (4,)) == (3, 4)
    with pytest.raises(ValueError, match=r"Incompatible shapes.*\(2,\) and \(3,\)"):
        broadcast_shapes((2,), (3,))


# ---- derivatives of Python numbers --------------------------------------------------------------

UNARY = (
    "negative abs exp expm1 log log1p sqrt square sin cos tan tanh arcsin arccos arctan sinh cosh "
    "floor round"
).split()
BINARY = "add subtract multiply true_divide maximum minimum arctan2 remainder".split()
HALF, SINGLE = np.ones(2, bfloat16), np.ones(2, np.float32)


def derivatives(api, numpy):
    """Yields derivatives by a Python number: in words, the function, its arguments."""
    for name in UNARY:
        f = getattr(numpy, name)
        yield f"grad of {name}", api.grad(f), (0.5,)
        yield f"{name} beside bf16", api.grad(lambda s, f=f: (f(s) * HALF).sum()), (0.5,)
        yield f"jvp of {name}", lambda s, f=f: api.jvp(f, (s,), (s,)), (0.5,)
    for name in BINARY:
        f = getattr(numpy, name)
        both = api.grad(lambda s, x, f=f: f(s, x).sum(), argnums=(0, 1))
        yield f"{name} with bf16", both, (0.5, HALF)
        yield f"{name} with f32", both, (0.5, SINGLE)
    yield "where", api.grad(lambda s: numpy.where(s > 0, s, 0.0)), (0.5,)
    yield "clip", api.grad(lambda s: numpy.clip(s, 0.0, 1.0)), (0.5,)
    yield "stack", api.grad(lambda s: numpy.stack([s, s]).sum()), (0.5,)
    yield "powers", api.grad(lambda s: s**2 + s**3 + s**-1), (0.5,)
    yield "repeated", api.grad(lambda s: (s * numpy.ones(3)).sum()), (0.5,)
    yield "converted", api.grad(lambda s: s.astype(bfloat16).astype(np.float32)), (0.5,)
    yield "reshaped", api.grad(lambda s: numpy.reshape(s, (1,)).sum()), (0.5,)


def test_derivatives_by_python_numbers_are_as_weak_as_jax_has_them():
    ours, theirs = (
        {
            name: [(a.shape, a.dtype, a.weak_type) for a in api.make_jaxpr(f)(*args).out_avals]
            for name, f, args in derivatives(api, numpy)
        }
        for api, numpy in ((core, cnp), (jax, jnp))
    )
    assert ours == theirs


def test_a_step_on_python_numbers_is_compiled_once():
    loss = core.grad(lambda s: (s * HALF).sum().astype(np.float32))
    step, s = core.jit(lambda s: s - 0.1 * loss(s)), 1.0
    for _ in range(3):
        s = step(s)
    assert (step.cache_info().misses, s.weak_type) == (1, True)
