"""jit: its key and cache, static and donated arguments, stages, under other transforms, errors."""

import re
import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.kernel.run import _program

X = np.arange(3, dtype=np.float32)
XX = np.stack([X, X + 1])


def close(ours, theirs):
    for x, y in zip(core.tree_leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


def counting(f):
    """A function and the list of its runs: it is run when it is traced."""
    runs = []

    def counted(*args, **kwargs):
        runs.append(args)
        return f(*args, **kwargs)

    return counted, runs


# ---- the cache ----------------------------------------------------------------------------------


def test_the_function_runs_once_per_key():
    f, runs = counting(lambda x, y: {"sum": x + y, "all": (x, [y])})
    g = core.jit(f)
    for other in (X, cnp.asarray(X), jnp.asarray(X)):
        close(g(X, other), f(X, X))
    assert len(runs) == 1 + 3
    assert g.cache_info() == (2, 1, 1)
    for args in ((X, 1.0), (X, 2.0), (X, np.float32(2)), (X, 2), (X[:2], 1.0)):
        g(*args)
    assert g.cache_info() == (3, 5, 5)


def test_a_key_is_data():
    @partial(core.jit, static_argnames="n")
    def scaled(tree, n, *, by=2.0):
        return tree["x"] * n * by

    scaled({"x": X}, 3, by=1.5)
    (key,) = scaled.cache_keys()
    assert key.function == "scaled"
    assert [aval.str_short() for aval in key.in_avals] == ["f32[3]", "f32[]"]
    assert [aval.weak_type for aval in key.in_avals] == [False, True]
    assert str(key.in_tree) == "PyTreeDef((({'x': *},), {'by': *}))"
    assert key.static == ((1, int, 3),)
    assert (key.device, key.axes, key.x64) == (None, (), False)
    assert hash(key) == hash(tuple(key))


def test_x64_and_names_of_axes_are_parts_of_the_key():
    g = core.jit(lambda x: x * 2.0)
    assert g(np.float64(1)).dtype == np.float32
    with core.enable_x64():
        assert g(np.float64(1)).dtype == np.float64
    assert [key.x64 for key in g.cache_keys()] == [False, True]
    core.vmap(g, axis_name="i")(X)
    assert g.cache_keys()[-1].axes == (("i", 3),)


def test_events_tell_hits_and_misses():
    seen = []
    g = core.jit(lambda x: cnp.sin(x))
    with core.listen(seen.append):
        g(X)
        g(X)
    cache = [(event.name, event.detail["hit"]) for event in seen if event.kind == "cache"]
    assert cache == [("<lambda>", False), ("<lambda>", True)]
    kinds = [event.kind for event in seen if event.kind != "bind"]
    assert kinds == ["cache", "record", "trace", "lower", "compile", "run", "cache", "run"]
    assert seen[0].detail["key"] in g.cache_keys()


def test_what_is_taken_from_outside_is_taken_once():
    kept = np.arange(4000, dtype=np.float32)
    small = np.ones(3, np.float32)
    g = core.jit(lambda x: (x + kept, x + small[0]))
    first = np.asarray(g(1.0)[0])
    kept += 1
    assert np.array_equal(first, np.asarray(g(1.0)[0]))
    assert np.array_equal(first, np.arange(4000) + 1)


def test_tracers_from_outside_are_others_each_time():
    def outer(x):
        return core.jit(lambda y: y * x)(2.0)

    inner = core.jit(lambda y, f: y, static_argnums=1)
    assert float(core.grad(outer)(3.0)) == 2.0
    held = []
    g = core.jit(lambda y: y * held[-1])

    def use(x):
        held.append(x)
        return g(1.0)

    assert [float(core.grad(use)(x)) for x in (1.0, 2.0)] == [1.0, 1.0]
    assert g.cache_info().entries == 0
    assert float(inner(1.0, outer)) == 1.0


# ---- arguments ----------------------------------------------------------------------------------


def test_keywords_defaults_and_methods():
    class Model:
        @core.jit
        def __call__(self, x):
            return x

        @partial(core.jit, static_argnums=0)
        def twice(self, x, *, plus=0.0):
            return 2 * x + plus

    model = Model()
    close(model.twice(X, plus=1.0), 2 * X + 1)
    with pytest.raises(TypeError, match=r"argument self of __call__.*static_argnums"):
        model(X)
    assert core.jit(lambda *xs, **more: (xs, more))(1, b=2)[1]["b"].dtype == np.int32


@pytest.mark.parametrize(
    "options",
    [{"static_argnums": 1}, {"static_argnums": (-2,)}, {"static_argnames": "n"}],
)
def test_static_arguments(options):
    def power(x, n, y):
        assert isinstance(n, int)
        return x**n + y

    g = core.jit(power, **options)
    close(g(X, 2, 1.0), X**2 + 1)
    close(g(X, n=3, y=1.0), X**3 + 1)
    close(g(X, 2, y=2.0), X**2 + 2)
    assert g.cache_info().misses == 3
    g(X, True, 1.0)  # equal to 1, and another value
    g(X, 1, 1.0)
    assert g.cache_info().misses == 5


def test_static_arguments_that_do_not_exist():
    def f(x, n):
        return x

    with pytest.raises(ValueError, match=r"static_argnums names argument 2 of f.*x, n"):
        core.jit(f, static_argnums=2)
    with pytest.raises(ValueError, match="static_argnames names argument 'm' of f"):
        core.jit(f, static_argnames=("m",))
    with pytest.raises(ValueError, match="donate_argnums names argument -3 of f"):
        core.jit(f, donate_argnums=-3)
    with pytest.raises(ValueError, match="static_argnums"):
        jax.jit(f, static_argnums=2)


def test_static_values_must_hash():
    g = core.jit(lambda x, sizes: x, static_argnums=1)
    with pytest.raises(ValueError, match=r"Non-hashable static.*argument sizes of <lambda>.*list"):
        g(X, [1])
    with pytest.raises(ValueError, match="Non-hashable"):
        jax.jit(lambda x, sizes: x, static_argnums=1)(X, [1])


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (({"w": [1.0, "text"]}, 1.0), r"str .* argument params\['w'\]\[1\] of step, 'text'"),
        ((1.0, 2.0, object()), r"object .* argument rest\[0\] of step"),
        ((1.0, {1, 2}), r"set .* argument x of step"),
        ((1.0, np.array(["a"])), r"ndarray of <U1 as an array: argument x of step"),
    ],
)
def test_arguments_that_are_no_arrays(args, name):
    def step(params, x, *rest):
        return x

    with pytest.raises(TypeError, match=name):
        core.jit(step)(*args)
    with pytest.raises(TypeError):
        jax.jit(step)(*args)


def test_results_that_are_no_arrays():
    with pytest.raises(TypeError, match="expected an array or a number, got str"):
        core.jit(lambda x: "text")(X)


def test_a_wrong_call_is_python_s_own_error():
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'y'"):
        core.jit(lambda x, y: x)(X)


# ---- donation -----------------------------------------------------------------------------------


def test_a_donated_buffer_is_used_for_the_result_and_gone():
    @partial(core.jit, donate_argnums=0)
    def step(params, x):
        return {"w": params["w"] + x}, x * 2

    # Of a result: an array of the CPU may share memory with NumPy, which no program may reuse.
    params = {"w": core.array(np.zeros(1000, np.float32)) + 1}
    place = params["w"].buffer.unsafe_buffer_pointer()
    new, _ = step(params, 1.0)
    assert new["w"].buffer.unsafe_buffer_pointer() == place
    assert params["w"].is_deleted()
    assert not new["w"].is_deleted()
    gone = r"Array has been deleted with shape="
    for use in (
        lambda: step(params, 1.0),
        lambda: params["w"] + 1,
        lambda: np.asarray(params["w"]),
        lambda: params["w"].block_until_ready(),
        lambda: jnp.asarray(params["w"]),
    ):
        with pytest.raises(RuntimeError, match=gone):
            use()
    assert float(step(new, 1.0)[0]["w"][0]) == 3.0


def test_an_array_given_twice_cannot_be_donated():
    g = core.jit(lambda a, b: (a + 1, b * 2), donate_argnums=0)
    x = core.array(X)
    with pytest.raises(RuntimeError, match=r"previously donated in the same call"):
        g(x, x)
    assert not x.is_deleted()


def test_donation_is_in_the_module():
    g = core.jit(lambda a, b: (b * 2, a + 1), donate_argnums=(0, 1))
    text = g.lower(X, X[:2]).as_text()
    theirs = jax.jit(lambda a, b: (b * 2, a + 1), donate_argnums=(0, 1)).lower(X, X[:2]).as_text()
    for part in ("tensor<3xf32> {tf.aliasing_output = 1", "tensor<2xf32> {tf.aliasing_output = 0"):
        assert part in text
        assert part in theirs


def test_donating_what_no_result_can_use_warns_and_keeps_it():
    g = core.jit(lambda x: x.sum(), donate_argnums=0)
    x = core.array(X)
    with pytest.warns(UserWarning, match="donated buffers were not usable: float32"):
        g(x)
    assert not x.is_deleted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g(X + 1)  # compiled already
    source = np.ones(5, np.float32)
    core.jit(lambda x: x + 1, donate_argnums=0)(source)
    assert np.array_equal(source, np.ones(5))  # NumPy's memory is never given away


# ---- stages -------------------------------------------------------------------------------------


def test_the_stages_one_by_one():
    def affine(p, x):
        return {"y": p["w"] @ x + p["b"]}

    shapes = {
        "w": jax.ShapeDtypeStruct((2, 3), np.float32),
        "b": core.ShapedArray((2,), np.float32),
    }
    args = shapes, jax.ShapeDtypeStruct((3,), np.float32)
    traced = core.jit(affine).trace(*args)
    core.check_jaxpr(traced.jaxpr)
    assert [eqn.primitive.name for eqn in traced.jaxpr.eqns] == ["dot_general", "add"]
    assert traced.arg_names == ["p['b']", "p['w']", "x"]
    lowered = traced.lower()
    assert "module @jit_affine" in lowered.as_text()
    compiled = lowered.compile({"xla_cpu_enable_fast_math": True})
    theirs = jax.jit(affine).lower(*args).compile()
    assert compiled.cost_analysis()["flops"] == theirs.cost_analysis()["flops"]
    ours, his = compiled.memory_analysis(), theirs.memory_analysis()
    assert ours.argument_size_in_bytes == his.argument_size_in_bytes == 44
    assert "HloModule jit_affine" in compiled.as_text()
    params = {"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)}
    close(compiled(params, X), affine(params, X))
    with pytest.raises(TypeError, match=r"f32\[3\] as argument x, got f32\[2\]"):
        compiled(params, X[:2])
    with pytest.raises(TypeError, match=r"compiled for \(args, kwargs\) in the containers"):
        compiled(X, X)
    with pytest.raises(TypeError, match="argument x is traced"):
        core.vmap(lambda x: compiled(params, x))(np.ones((2, 3), np.float32))


def test_compiled_programs_take_no_static_arguments():
    g = core.jit(lambda n, x: x * n, static_argnums=0)
    close(g.lower(3, X).compile()(X), X * 3)


def test_types_alone_cannot_be_run():
    with pytest.raises(TypeError, match=r"expected the numbers of f32\[3\], got ShapeDtypeStruct"):
        core.jit(lambda x: x)(jax.ShapeDtypeStruct((3,), np.float32))


def test_an_option_of_xla_that_does_not_exist():
    with pytest.raises(Exception, match="no_such_option"):
        core.jit(lambda x: x).lower(X).compile({"no_such_option": 1})


def test_eval_shape_runs_nothing():
    found = core.eval_shape(lambda x, n: {"y": (x * n).sum(), "x": x}, X, 2)
    theirs = jax.eval_shape(lambda x, n: {"y": (x * n).sum(), "x": x}, X, 2)
    assert {k: (v.shape, v.dtype) for k, v in found.items()} == {
        k: (v.shape, v.dtype) for k, v in theirs.items()
    }


def test_what_no_result_needs_is_not_lowered():
    text = core.jit(lambda x: (cnp.sin(x), x)[1]).lower(X).as_text()
    assert "sine" not in text


# ---- nested, and under transforms ---------------------------------------------------------------


def nested(m, np_):
    @m.jit
    def inner(a, b):
        return np_.sin(a) * b, a, b > 0

    @m.jit
    def f(x, n, y):
        u, v, _ = inner(x, y)
        w, _, positive = inner(v, u)
        return np_.sum(u * v * w) + n * 1.0, (positive, u)

    return f


def transforms(m, np_):
    f = nested(m, np_)
    of_x = lambda x: f(x, 2, x + 1)[0]  # noqa: E731
    pair = lambda t: [t["a"] ** 2, t["b"] * t["a"].sum()]  # noqa: E731
    return {
        "value": lambda: f(X, 2, X),
        "jvp": lambda: m.jvp(of_x, (X,), (X + 1,)),
        "grad": lambda: m.grad(lambda x, y: f(x, 2, y)[0], argnums=(0, 1))(X, X + 2),
        "aux, jitted": lambda: m.jit(m.value_and_grad(f, has_aux=True))(X, 2, X),
        "vmap": lambda: m.vmap(f, in_axes=(0, None, None))(np.stack([X, X + 1]), 2, X),
        "hessian, jitted": lambda: m.jit(m.hessian(of_x))(X),
        "hessian by both": lambda: m.hessian(lambda x, y: f(x, 2, y)[0], argnums=(0, -1))(X, X + 2),
        "jacobians of a tree": lambda: (m.jacfwd(pair)(TREE), m.jacrev(pair)(TREE)),
        "vmap of jit of grad, jitted": lambda: m.jit(m.vmap(m.jit(m.grad(of_x))))(XX),
        "grad of vmap, jitted": lambda: m.jit(m.grad(lambda x: m.vmap(of_x)(x).sum()))(XX),
    }


TREE = {"a": X, "b": np.stack([X, X + 1])}
OURS, THEIRS = transforms(core, cnp), transforms(jax, jnp)


@pytest.mark.parametrize("name", OURS)
def test_jit_under_transforms(name):
    for x, y in zip(core.tree_leaves(OURS[name]()), jax.tree.leaves(THEIRS[name]()), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)
    core.check_jaxpr(core.make_jaxpr(OURS[name])())


def test_a_gradient_taken_again_compiles_nothing():
    gradient = core.vmap(core.grad(lambda x: nested_once(x, 2, x)[0]))
    gradient(np.stack([X, X]))
    misses = _program.cache_info().misses
    gradient(np.stack([X, X + 1]))
    assert _program.cache_info().misses == misses


nested_once = nested(core, cnp)


def test_a_nested_jit_is_one_function_however_often_called():
    text = core.jit(lambda x: nested_once(nested_once(x, 1, x)[1][1], 2, x)).lower(X).as_text()
    assert text.count("func.func private @inner(") == 1
    assert text.count("func.func private @f(") == 1
    assert text.count("call @inner(") == text.count("call @f(") == 2
    jaxpr = core.make_jaxpr(nested_once)(X, 2, X)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["jit"]
    assert jaxpr.eqns[0].params["name"] == "f"


# ---- bytes --------------------------------------------------------------------------------------


def test_export_and_call():
    big = np.arange(3000, dtype=np.float32)

    @core.jit
    def f(p, n):
        u, *_ = nested_once(p["w"], n, p["w"])
        return {"a": (u, cnp.tanh(p["w"])), "b": [big[:3] + big.sum(), None]}

    exported = core.export(f)({"w": X}, 2)
    loaded = core.deserialize(exported.serialize())
    assert loaded.in_avals == exported.in_avals
    assert loaded.out_tree == exported.out_tree
    close(loaded.call({"w": X}, 2), jax.tree.map(np.asarray, core.device_get(f({"w": X}, 2))))
    with pytest.raises(TypeError, match=r"exported for f32\[3\] as argument p\['w'\], got"):
        loaded.call({"w": X[:2]}, 2)
    close(core.jit(loaded.call)({"w": X}, 2), loaded.call({"w": X}, 2))
    with pytest.raises(NotImplementedError, match="`f` has no jvp rule"):
        core.jvp(lambda x: loaded.call({"w": x}, 2), (X,), (X,))


def test_export_says_what_it_cannot_write():
    with pytest.raises(ValueError, match=r"a function that core\.jit gave"):
        core.export(lambda x: x)
    with pytest.raises(ValueError, match=r"expected bytes of Exported.serialize"):
        core.deserialize(b"no program")
    written = core.export(core.jit(lambda x: x * 2))(X).serialize()
    with pytest.raises(ValueError, match=r"expected bytes of Exported.serialize"):
        core.deserialize(written[:-1] + bytes([written[-1] ^ 1]))
    with pytest.raises(ValueError, match="expected tuples, lists, dicts and None around arrays"):
        core.export(core.jit(lambda x: x.u))(namedtuple("Point", "u")(X)).serialize()


CONTAINERS = {
    "make_jaxpr": lambda m, f, x: m.make_jaxpr(f)(1.0, {"a": [x]}),
    "vmap": lambda m, f, x: m.vmap(f)(np.ones(2), {"a": [x]}),
    "grad": lambda m, f, x: m.grad(f, 1)(1.0, {"a": [x]}),
    "jvp": lambda m, f, x: m.jvp(f, (1.0, {"a": [x]}), (1.0, {"a": [x]})),
    "linearize": lambda m, f, x: m.linearize(f, 1.0, {"a": [x]}),
    "checkpoint": lambda m, f, x: m.checkpoint(f)(1.0, {"a": [x]}),
    "cond": lambda m, f, x: getattr(m, "lax", m).cond(True, f, f, 1.0, {"a": [x]}),
}


@pytest.mark.parametrize("transform", CONTAINERS)
def test_every_transform_names_an_unregistered_container(transform):
    def step(x, params):
        return x

    with pytest.raises(TypeError, match=r"object .* argument params\['a'\]\[0\] of step") as ours:
        CONTAINERS[transform](core, step, object())
    with pytest.raises(ours.type):
        CONTAINERS[transform](jax, step, object())


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda m: m.vmap(lambda x: x, out_axes=3)(X), "axis 3 is out of bounds"),
        (lambda m: m.vmap(lambda x: x, in_axes=0.5)(X), "axis 0.5 of argument x"),
        (lambda m: m.grad(lambda x: x, 2)(1.0), "argument 2, but .* was called with 1"),
        (lambda m: m.grad(lambda x: x, "x")(1.0), "integer|int"),
        (lambda m: m.grad(lambda x: x, has_aux=True)(1.0), "expected a pair|two-element|tuple"),
        (lambda m: m.grad(lambda x: (x, x))(1.0), "Output was a tuple"),
        (lambda m: m.grad(lambda x: {"a": x})(1.0), "Output was a dict"),
        (lambda m: m.jacrev(lambda x: (x > 1) * 1)(3.0), "jacrev requires real-valued outputs"),
        (lambda m: m.jvp(lambda x: x, (X,), (X, X)), "containers"),
        (lambda m: m.jvp(lambda x: x, X, X), "must be tuples"),
        (lambda m: m.vjp(lambda x: x, X)[1]((X,)), "the cotangent of vjp: expected the containers"),
        (lambda m: m.linearize(lambda x: x, X)[1]((X,)), "the tangents of linearize: expected"),
        (
            lambda m: m.jvp(lambda x: x * 2, (X,), (X[:1],)),
            "the tangent of `primals.0.` must be f32",
        ),
        (lambda m: m.jvp(lambda x: x * 2, (X,), (X.astype(int),)), r"must be f32\[.*got i32"),
        (lambda m: m.vjp(lambda x: x * 2, X)[1](X[:1]), "vjp: the cotangent must be f32"),
        (lambda m: m.vjp(lambda x: x * 2, X)[1](X.astype(np.float16)), "got f16"),
        (lambda m: m.linearize(lambda x: x * 2, X)[1](X[:1]), "linearize: a tangent must be f32"),
    ],
)
def test_wrong_use_of_transforms(f, words):
    with pytest.raises((TypeError, ValueError), match=words) as ours:
        f(core)
    with pytest.raises(ours.type):
        f(jax)


def test_axes_may_come_in_a_list():
    for m in (core, jax):
        assert m.vmap(lambda a, b: a * b, in_axes=[0, None])(X, 2.0).shape == X.shape


# ---- small things that lectures use -------------------------------------------------------------

NESTED = {"b": [X, (2.0, None)], "a": (XX,)}
ALIKE = {
    "jacobian": lambda m: m.jacobian(lambda x: x**2)(X),
    "remat": lambda m: m.grad(m.remat(lambda x: (x * x).sum()))(X),
    "real function of a complex number": lambda m: m.grad(lambda z: (z * z).real)(1 + 2j),
    "tree.leaves": lambda m: m.tree.leaves(NESTED),
    "tree.map": lambda m: m.tree.map(lambda x, y: x + y, NESTED, NESTED),
    "tree.flatten": lambda m: m.tree.unflatten(m.tree.flatten(NESTED)[1], range(3)),
    "tree.flatten_with_path": lambda m: [leaf for _, leaf in m.tree.flatten_with_path(NESTED)[0]],
    "make_mesh": lambda m: [m.make_mesh((1, 1), ("x", "y")).shape["y"]],
    "ShapeDtypeStruct": lambda m: [
        [*out.shape, len(out.shape), out.dtype.num]
        for shape, dtype in (([3], "float32"), ((2, 1), jnp.int32), ((), bool), ((2,), "int64"))
        for struct in [m.ShapeDtypeStruct(shape, dtype)]
        for out in (
            m.eval_shape(lambda x: x, struct),
            *m.make_jaxpr(lambda x: x)(struct).out_avals,
            *m.jit(lambda x, n: x[None][:n], static_argnums=1).trace(struct, 1).jaxpr.out_avals,
        )
    ],
    "donate_argnames": lambda m: [
        m.jit(lambda x, *, y: x + y, donate_argnames="y").lower(X, y=X).as_text().count("aliasing")
    ],
    "cost_analysis": lambda m: [
        m.jit(lambda x: x @ x).lower(np.ones((3, 3), np.float32)).compile().cost_analysis()["flops"]
    ],
    "memory_analysis": lambda m: [
        m.jit(lambda x: x * 2).lower(X).compile().memory_analysis().output_size_in_bytes
    ],
}


@pytest.mark.parametrize("name", ALIKE)
def test_small_things_as_in_jax(name):
    ours, theirs = ALIKE[name](core), ALIKE[name](jax)
    close(core.tree_map(np.asarray, ours), jax.tree.map(np.asarray, theirs))


def test_a_dataclass_is_a_tree_but_for_fields_that_are_marked():
    @dataclass
    class Layer:
        w: object
        name: str = field(metadata={"static": True})

    core.register_dataclass(Layer)
    assert core.tree.map(lambda x: x * 2, Layer(1, "a")) == Layer(2, "a")


COMPLEX = {
    "complex output": lambda m: m.grad(lambda z: z * z)(1j),
    "jacfwd, complex input": lambda m: m.jacfwd(abs)(1j),
    "jacrev, integer input": lambda m: m.jacrev(lambda z: z)(1),
    "jacrev, complex output": lambda m: m.jacrev(lambda z: z)(1j),
    "hessian, complex input": lambda m: m.hessian(lambda z: z * z)(1j),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives_that_there_are_not(name):
    with pytest.raises(TypeError) as theirs:
        COMPLEX[name](jax)
    words = re.match(r"\w+ requires [\w-]+", str(theirs.value)).group()
    with pytest.raises(TypeError, match=f"^{words}"):
        COMPLEX[name](core)


NANS = {
    "log": lambda m: m.numpy.log(-X - 1),
    "div": lambda m: m.jit(lambda x: x / x * 2)(m.numpy.asarray(X)),
    "mul": lambda m: m.grad(lambda x: m.numpy.sqrt(x) * 0)(0.0),
    "sqrt": lambda m: m.vmap(m.jit(lambda x: m.jit(lambda y: m.numpy.sqrt(y))(x)))(X - 1),
    "scan": lambda m: m.lax.scan(lambda c, x: (m.numpy.log(c), x), np.float32(0), X)[0],
}


@pytest.mark.parametrize("name", NANS)
def test_debug_nans_names_the_operation_and_the_line(name):
    assert np.isnan(core.numpy.asarray(NANS[name](core))).any()
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        NANS[name](jax)
    line = NANS[name].__code__.co_firstlineno
    words = rf"invalid value \(nan\) encountered in {name}, test_core_programs.py:{line} "
    with core.debug_nans(), pytest.raises(FloatingPointError, match=words):
        NANS[name](core)
    with core.debug_nans(), core.debug_nans(False):
        close(core.jit(lambda x: x * 2)(X), X * 2)


def test_log_compiles(caplog):
    f = core.jit(lambda x, n: x * n, static_argnums=1)
    with core.log_compiles():
        for _ in range(2):
            f(X, 2)
        f({"a": 1.0}["a"], 2)
    f(X, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "Compiling jit(<lambda>) with global shapes and types (f32[3]).",
        "Compiling jit(<lambda>) with global shapes and types (f32[]).",
    ]


def test_public_names():
    assert dir(core) == core.__all__ == sorted(core.__all__)
    assert all(hasattr(core, name) for name in core.__all__)
    modules = {name for name in dir(core) if isinstance(getattr(core, name), ModuleType)}
    assert modules == set("debug lax nn numpy random tree".split())
    of_jax = {"jacobian", "remat", "tree", "make_mesh", "log_compiles", "debug_nans"}
    assert of_jax <= {*dir(core)} & {*dir(jax)}
