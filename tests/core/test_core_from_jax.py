"""`core.from_jax`: programs of JAX in the core, beside JAX, under the transforms of both."""

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxlens import core
from tests.support.model_programs import on_models, program

pytestmark = pytest.mark.backend
X = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
V = np.array([0.3, -1.2, 2.5], np.float32)
S = np.float32(0.7)
INTS = np.array([2, 0, 1], np.int32)
KEY = np.array([0, 7], np.uint32)
SPD = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)


@jax.custom_vjp
def scaled(x: Any, n: int) -> Any:
    """sin(x) * n, with a gradient that nobody else would give."""
    return jnp.sin(x) * n


scaled.defvjp(
    lambda x, n: (jnp.sin(x) * n, (jnp.cos(x), n)),
    lambda res, ct: (ct * res[0] * res[1] * 10, None),
)


@jax.custom_jvp
def doubled(x: Any, y: Any) -> Any:
    """x * y, with twice the slope by x."""
    return x * y


doubled.defjvp(lambda xs, ts: (doubled(*xs), 2 * ts[0] * xs[1] + ts[1] * xs[0]))


def _attention(q: Any) -> Any:
    scores = jnp.where(jnp.tril(jnp.ones((3, 3), bool)), q @ q.T / 2, -jnp.inf)
    return jax.nn.softmax(scores) @ q


def _rnn(x: Any) -> Any:
    def cell(carry: Any, row: Any) -> Any:
        carry = jnp.tanh(carry @ X[:, :3] + row[:3])
        return carry, carry.sum()

    return lax.scan(cell, jnp.zeros(3), x, reverse=True)


def _keys(x: Any) -> Any:
    first, second = jax.random.split(jax.random.key(3))
    keep = jax.random.bernoulli(jax.random.fold_in(first, 5), 0.5, x.shape)
    return jnp.where(keep, x, 0) + jax.random.normal(second, x.shape)


# Each with its arguments; the first is differentiated if it is inexact.
PROGRAMS: dict[str, tuple[Any, ...]] = {
    "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), V),
    "linear algebra": (lambda x: jnp.linalg.slogdet(x @ x.T + 2 * jnp.eye(3)), X),
    "sums of exponentials": (lambda x: lax.cumlogsumexp(x) + lax.cummax(x), V),
    "the largest": (lambda x: lax.top_k(x, 2), V),
    "affine": (lambda x, w: jnp.tanh(x @ w), V, X),
    "attention": (_attention, X),
    "bessel of logs": (lambda x: jnp.log1p(jnp.expm1(x)) + jnp.arctan2(x, 2.0) + lax.rsqrt(x), X),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * V, x), V),
    "conv": (lambda x: jnp.convolve(x, V, mode="same"), V),
    "cumsum, cumprod": (lambda x: jnp.cumsum(x) * jnp.cumprod(x), V),
    "custom jvp": (lambda x: doubled(x, 3.0 * x).sum(), V),
    "custom jvp of a literal": (lambda x: jnp.logaddexp(x, 1.0), V),
    "custom vjp": (lambda x: scaled(x, 3) + scaled(x * 2, 4), V),
    "dynamic slices": (lambda x, i: lax.dynamic_update_slice(x, 2 * x[i][None], (i, 0)), X, 1),
    "einsum": (lambda x: jnp.einsum("ij,kj,j->ik", x, x, x[0]), X),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x), V),
    "gather": (lambda x: x[INTS, 1:] + jnp.take(x, 5, axis=0, mode="clip")[1:], X),
    "gelu": (lambda x: jax.nn.gelu(x) + jax.nn.silu(x), V),
    "gradient by JAX": (jax.grad(lambda x: jax.nn.softplus(x @ X).sum()), V),
    "integers": (lambda i: (i // 2, i % 2, i << 1, ~i, i**2), INTS),
    "jitted twice": (lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(2 * x), V),
    "keys": (_keys, V),
    "keys of old": (lambda key: jax.random.uniform(jax.random.split(key)[0], (3,)), KEY),
    "keys, many": (lambda key: jax.vmap(jax.random.normal)(jax.random.split(key, 3)), KEY),
    "log_softmax": (jax.nn.log_softmax, V),
    "lower precision": (lambda x: (x.astype(jnp.bfloat16) @ X.astype(jnp.bfloat16)).sum(), V),
    "median": (jnp.median, V),
    "normalised": (lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5), X),
    "pad, roll, flip": (lambda x: jnp.pad(jnp.roll(x, 1)[::-1], 1, mode="edge"), V),
    "pieces": (lambda x: jnp.hstack(jnp.split(x, 2, axis=1)[::-1]), X),
    "randint": (lambda key: jax.random.randint(key, (5,), 0, 9), KEY),
    "reductions": (lambda x: x.max() * x.min() + x.prod() + jnp.linalg.norm(x), X),
    "remat": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), V),
    "rnn": (_rnn, X),
    "scatter": (lambda x: x.at[0].set(1.0).at[INTS, 1].add(x[0, 0]).at[1].multiply(3.0), X),
    "searchsorted": (lambda x: jnp.searchsorted(X[0], x), V),
    "sort": (lambda x: jnp.sort(x) * jnp.argsort(x) + jnp.argmax(x), V),
    "stop_gradient": (lambda x: x * lax.stop_gradient(x), V),
    "tile": (lambda x: jnp.tile(x, (2, 3)), X),
    "tree": (lambda p: {"b": p["a"] * 2, "c": (p["a"].sum(), None)}, {"a": V}),
    "vmapped by JAX": (jax.vmap(lambda x: x / x.sum(), in_axes=1), X),
    "vmapped sum": (jax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i"), V),
    "vmapped while_loop": (
        jax.vmap(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * c + 1, x)),
        V,
    ),
    "weak": (lambda x: x * 2 + 1, 3.0),
    "while_loop": (lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * c + 1, x), V),
}


def _total(f: Callable[..., Any], lib: Any) -> Callable[..., Any]:
    """The sum of all inexact results, for a gradient."""

    def total(*args: Any) -> Any:
        leaves = [x for x in jax.tree_util.tree_leaves(f(*args)) if x.dtype.kind not in "iub"]
        return sum((x * x).astype(np.float32).sum() for x in leaves)

    return total


def _twice(args: tuple[Any, ...]) -> list[Any]:
    return [jax.tree_util.tree_map(lambda x: np.stack([x, x]), arg) for arg in args]


def transformed(lib: Any, f: Any, args: tuple[Any, ...], derivatives: int) -> dict[str, Any]:
    """Returns what a library makes of a function, by one program: it is compiled once."""

    def everything(args: Any, twice: Any) -> dict[str, Any]:
        total = _total(f, lib)
        results = {"value": f(*args), "vmap": lib.vmap(f)(*twice)}
        if derivatives > 0:
            results["grad"] = lib.grad(total)(*args)
        if derivatives > 1:
            slope = lib.grad(lambda x: total(x, *args[1:]))
            results["jvp of grad"] = lib.jvp(slope, args[:1], args[:1])
        return results

    results: dict[str, Any] = lib.jit(everything)(args, _twice(args))
    return results


DERIVATIVES = {
    "while_loop": 0,
    "vmapped while_loop": 0,
    "searchsorted": 0,
    "custom vjp": 1,
    "scatter": 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_jax_is_transformed_and_run_by_the_core(name: str) -> None:
    f, *args = PROGRAMS[name]
    inexact = all(np.asarray(x).dtype.kind == "f" for x in jax.tree_util.tree_leaves(args[0]))
    derivatives = DERIVATIVES.get(name, 2) if inexact else 0
    ours = transformed(core, core.from_jax(f), tuple(args), derivatives)
    theirs = transformed(jax, f, tuple(args), derivatives)
    for kind, result in theirs.items():
        expected, tree = jax.tree_util.tree_flatten(result)
        got, own_tree = jax.tree_util.tree_flatten(ours[kind])
        assert own_tree == tree, kind
        for x, y in zip(got, expected, strict=True):
            assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type), kind
            numbers = [np.asarray(z, np.float32) for z in (x, y)]
            np.testing.assert_allclose(*numbers, rtol=2e-4, atol=1e-5, err_msg=kind)


@on_models
def test_programs_of_libraries(name: str) -> None:
    """Value, gradient by all inexact arrays, and vmap; or what the core refuses."""
    f, args = program(name)[:2]
    leaves, tree = jax.tree_util.tree_flatten(args)
    moves = [jnp.issubdtype(jnp.result_type(x), jnp.inexact) for x in leaves]
    moving = [x for x, has in zip(leaves, moves, strict=True) if has]

    def flat(*values: Any) -> list[Any]:
        given = iter(values)
        filled = [next(given) if has else x for x, has in zip(leaves, moves, strict=True)]
        results = jax.tree_util.tree_leaves(f(*jax.tree_util.tree_unflatten(tree, filled)))
        return [x for x in results if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]

    def everything(lib: Any, f: Any) -> Any:
        everywhere = tuple(range(len(moving)))
        slopes = lib.grad(_total(f, lib), argnums=everywhere)
        apply = lib.jit(lambda xs, two: (f(*xs), slopes(*xs), lib.vmap(f)(*two)))
        return apply(moving, _twice(tuple(moving)))

    if name == "diffrax_solve":
        with pytest.raises(NotImplementedError, match=r"jaxlens\.core has no pure_callback, which"):
            everything(core, core.from_jax(flat))
        return
    pairs = map(
        jax.tree_util.tree_leaves, (everything(core, core.from_jax(flat)), everything(jax, flat))
    )
    for ours, theirs in zip(*pairs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_what_calls_python_is_refused_with_its_line() -> None:
    def asked(x: Any) -> Any:
        return jax.experimental.io_callback(np.sin, x, x)

    line = r"test_core_from_jax.py:\d+ \(.*asked\): jaxlens.core has no io_callback, which calls"
    with pytest.raises(NotImplementedError, match=line):
        core.from_jax(asked)(V)
    with pytest.raises(NotImplementedError, match="has no pure_callback, which calls Python"):
        core.from_jax(lambda x: jax.pure_callback(np.sin, x, x))(V)


def test_keys_of_jax_go_in_and_out() -> None:
    """Also through the core's transformations; what JAX traces is given a key."""

    def f(key: Any) -> Any:
        assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        first, second = jax.random.split(jax.random.fold_in(key, 3))
        return first, jax.random.normal(second, (2,))

    key, keys = jax.random.key(5), jax.random.split(jax.random.key(6), 3)
    function = core.from_jax(f)
    for given, ours, theirs in (
        (key, core.jit(function), f),
        (keys, core.vmap(function), jax.vmap(f)),
    ):
        (own, numbers), (split, expected) = ours(given), theirs(given)
        np.testing.assert_array_equal(*map(jax.random.key_data, (own.buffer, split)))
        np.testing.assert_array_equal(numbers, expected)
    again = core.from_jax(jax.random.uniform)(function(key)[0])
    np.testing.assert_array_equal(again, jax.random.uniform(f(key)[0]))


def _unknown(**params: Any) -> Callable[..., Any]:
    """A primitive of JAX called sin, with other parameters than those of today."""
    other = jax.extend.core.Primitive("sin")
    other.def_abstract_eval(lambda x, **_: x)
    return lambda x: other.bind(x, **params)


# What JAX says beside the defaults: it is read, or says nothing of what is computed; else the
# equation is a guest, or refused by name.
PARAMETERS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "accuracy": (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), None),
    "donated, inlined": (jax.jit(lambda x: x + 1, donate_argnums=0, inline=True), None),
    "dot_general": (lambda x: lax.dot(x.T, x, preferred_element_type=np.float16), None),
    "mul": (lambda x: jnp.multiply(x.astype(np.int8), 2.5), None),
    "precision": (lambda x: lax.dot(x.T, x, precision=lax.Precision.HIGHEST), None),
    "reshape": (lambda x: lax.reshape(x, (2, 6), dimensions=(1, 0)), None),
    "round": (lambda x: lax.round(x * 10 - 0.5, lax.RoundingMethod.AWAY_FROM_ZERO), None),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c), X[0], x, reverse=True, unroll=2), None),
    "sort": (lambda x: lax.sort((x, -x), dimension=0, is_stable=False, num_keys=2), None),
    "says nothing": (_unknown(other=None, more=()), None),
    "checkpoint": (
        jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.dots_saveable),
        r"^test_core_from_jax.py:\d+ \(.*\): jaxlens.core has no remat2 with policy=",
    ),
    "conv": (
        lambda x: lax.conv_general_dilated(
            x[:2, None], X[:2, None, :2], (1,), "SAME", batch_group_count=2
        ),
        None,
    ),
    "debug_print, left out": (lambda x: (jax.debug.print("{}", x, ordered=True), x)[1], None),
    "keys": (
        lambda x: x + jax.random.normal(jax.random.key(1, impl="rbg")),
        "has the random numbers of key<fry>, not of key<rbg>",
    ),
    "scatter": (lambda x: x.at[0].apply(jnp.sin), None),
    "unknown": (_unknown(other=1), "for primitive 'sin' not found"),
    "unknown, a zero": (_unknown(other=0), "for primitive 'sin' not found"),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_is_read_or_says_nothing_or_is_refused(name: str) -> None:
    f, refusal = PARAMETERS[name]
    if refusal is not None:
        with pytest.raises((NotImplementedError, TypeError), match=refusal):
            core.from_jax(f)(X)
        return
    expected = jnp.sin(X) if "nothing" in name else f(jnp.array(X))
    found = core.from_jax(f)(X)
    jax.tree_util.tree_map(np.testing.assert_allclose, found, expected)


def test_jax_s_shard_map_is_refused() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    f = jax.shard_map(jnp.sin, mesh=mesh, in_specs=spec, out_specs=spec)
    with pytest.raises(NotImplementedError, match=r"jax\.shard_map: use core\.shard_map"):
        core.from_jax(f)(V)


def test_jax_traces_once_for_types_and_leaves_its_settings() -> None:
    seen = []

    def f(x: Any, mode: str) -> Any:
        seen.append(mode)
        return jnp.pad(x, 1, mode=mode)

    function = core.from_jax(f)
    for mode in ("edge", "edge", "wrap"):
        function(V, mode)
        core.grad(lambda x, mode: function(x, mode).sum())(V, mode)
    assert seen == ["edge", "wrap"]
    with core.enable_x64():
        wide = core.from_jax(lambda x: jax.random.normal(jax.random.key(1), dtype="f8") * x)
        assert wide(np.float64(1)).dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_equations_have_the_lines_of_the_user() -> None:
    function = core.from_jax(lambda x: jnp.clip(x, 0, 1) * 2)
    eqns = core.make_jaxpr(core.grad(lambda x: function(x).sum()))(V).eqns
    assert {str(eqn.source_info).partition(":")[0] for eqn in eqns} == {"test_core_from_jax.py"}
    assert [eqn.primitive.name for eqn in eqns[:2]] == ["jit", "mul"]
