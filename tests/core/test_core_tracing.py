"""Tracing: what cannot be asked of a traced value, leaks, foreign tracers, places, locations."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core

X = np.arange(3, dtype=np.float32)


# ---- numbers that are not there -----------------------------------------------------------------

ASKED = {
    "if": (lambda x: x if x > 0 else -x, core.TracerBoolConversionError, "cnp.where"),
    "and": (lambda x: x > 0 and x, core.TracerBoolConversionError, "core.cond"),
    "int": (lambda x: int(x), core.ConcretizationTypeError, r"\.astype\(int\)"),
    "float": (lambda x: float(x), core.ConcretizationTypeError, r"\.astype\(float\)"),
    "complex": (lambda x: complex(x), core.ConcretizationTypeError, r"\.astype\(complex\)"),
    "item": (lambda x: x.item(), core.ConcretizationTypeError, "keep it an array"),
    "range": (lambda x: [*range(x.astype(int))], core.TracerIntegerConversionError, "fori_loop"),
    "numpy": (lambda x: np.sin(x), core.TracerArrayConversionError, "jaxlens.core.numpy"),
    "asarray": (lambda x: np.asarray(x), core.TracerArrayConversionError, "jaxlens.core.numpy"),
    "jax.numpy": (lambda x: jnp.asarray(x), core.TracerArrayConversionError, "place of JAX's"),
}


@pytest.mark.parametrize("name", ASKED)
def test_numbers_asked_for_while_tracing(name):
    f, error, cure = ASKED[name]
    with pytest.raises(error, match=cure) as raised:
        core.jit(f)(1.0)
    assert isinstance(raised.value, TypeError)
    place = r"test_core_tracing\.py:\d+ \(<lambda>\) asks for .*(f32|i32|bool)\[\]"
    assert re.search(place, str(raised.value))
    if name not in ("jax.numpy", "item"):
        theirs = getattr(jax.errors, error.__name__)
        with pytest.raises(theirs):
            jax.jit(f)(1.0)


def test_the_error_names_the_line_that_made_the_value():
    def f(x):
        y = x * 2  # made here
        return y if y > 0 else x

    line = f.__code__.co_firstlineno
    with pytest.raises(core.TracerBoolConversionError) as raised:
        core.jit(f)(1.0)
    assert f"py:{line + 2} (" in str(raised.value)


def test_an_argument_that_is_asked_is_named_as_one():
    with pytest.raises(
        core.ConcretizationTypeError, match=r"traced: f32\[\] of the arguments has no numbers yet"
    ):
        core.jit(float)(1.0)


def test_under_jvp_and_vmap_too():
    with pytest.raises(core.TracerBoolConversionError, match=r": bool\[\] has a number for each "):
        core.vmap(lambda x: x if x > 0 else -x)(X)
    with pytest.raises(core.ConcretizationTypeError):
        core.grad(lambda x: x * float(x))(1.0)


def test_a_traced_value_does_not_hash_and_has_a_repr():
    seen = []

    def f(x):
        seen.append(repr(x))
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        with pytest.raises(TypeError, match="without axes"):
            len(x)
        return x

    core.jit(f)(1.0)
    assert seen == ["Traced<f32[]>with<Staging>"]


# ---- leaks --------------------------------------------------------------------------------------


def leaked_from(transform, *args):
    held = []

    def f(x):
        held.append(cnp.sin(x))
        return cnp.sum(x * held[0])

    transform(f)(*args)
    return held[0]


USES = {
    "operator": lambda x: x + 1,
    "function": lambda x: cnp.cos(x),
    "jit": lambda x: core.jit(lambda y: y * 2)(x),
    "closure of jit": lambda x: core.jit(lambda y: y * x)(1.0),
    "grad": lambda x: core.grad(lambda y: cnp.sum(y * x))(1.0),
    "bool": lambda x: bool(x),
    "numpy": lambda x: np.asarray(x),
}


@pytest.mark.parametrize("transform", [core.jit, core.grad, core.vmap, core.make_jaxpr])
def test_every_later_use_of_a_leaked_value_is_an_error(transform):
    leak = leaked_from(transform, X if transform is core.vmap else 1.0)
    for name, use in USES.items():
        with pytest.raises(core.UnexpectedTracerError, match="uses a traced value after") as raised:
            use(leak)
        assert "must return what it computes" in str(raised.value), name


def test_the_leak_names_both_lines():
    held = []

    def f(x):
        held.append(x * 3)
        return x

    core.jit(f)(1.0)
    with pytest.raises(core.UnexpectedTracerError) as raised:
        held[0] + 1
    used = re.match(r"test_core_tracing\.py:(\d+) \(test_the_leak", str(raised.value))
    made = re.search(r"made at test_core_tracing\.py:(\d+) \(", str(raised.value))
    assert int(made[1]) == f.__code__.co_firstlineno + 1
    assert int(used[1]) > int(made[1])


def test_side_effects_happen_while_tracing():
    said = []
    g = core.jit(lambda x: said.append("traced") or x)
    for _ in range(3):
        g(1.0)
    assert said == ["traced"]


# ---- JAX and core in one program ----------------------------------------------------------------


def test_jax_cannot_trace_the_core():
    for transform in (jax.jit, jax.grad, jax.make_jaxpr):
        with pytest.raises(core.ForeignTracerError, match=r"use core\.jit"):
            transform(lambda x: cnp.sin(x) * 2)(1.0)
        with pytest.raises(core.ForeignTracerError, match="tracer of JAX's"):
            transform(lambda x: core.jit(lambda y: y)(x))(1.0)
    with pytest.raises(TypeError, match="JAX's"):
        jax.vmap(lambda x: core.array(1.0) * x)(X)


def test_tracers_of_both_in_one_line():
    def both(x):
        return jax.jit(lambda y: y * x)(1.0)

    with pytest.raises(TypeError, match=r"JAX's|Tracer"):
        core.jit(both)(1.0)


def test_arrays_of_jax_are_constants():
    kept = jnp.ones(3)
    assert np.array_equal(core.jit(lambda x: x * kept + jnp.arange(3))(2.0), [2, 3, 4])


# ---- places -------------------------------------------------------------------------------------


def frames(jaxpr, n):
    frames = jaxpr.eqns[n].source_info.traceback.frames
    own = [(f.function_name.split(".")[-1], f.line_num) for f in frames if f.file_name == __file__]
    return [f for f in own if not f[0].startswith("test")]


def test_an_equation_has_the_calls_that_made_it():
    def inner(x):
        return cnp.sin(x)

    def outer(x):
        y = x * 2.0
        return inner(y)

    jaxpr = core.make_jaxpr(outer)(1.0)
    first = outer.__code__.co_firstlineno
    assert frames(jaxpr, 0) == [("outer", first + 1)]
    assert frames(jaxpr, 1) == [("inner", inner.__code__.co_firstlineno + 1), ("outer", first + 2)]
    assert str(jaxpr.eqns[1].source_info).startswith(f"test_core_tracing.py:{first - 2} (")
    assert frames(core.make_jaxpr(core.grad(outer))(1.0), -1) == frames(jaxpr, 0)


def test_scopes_reach_the_equations():
    @core.named_scope("block")
    def block(x):
        return cnp.sin(x)

    def f(x):
        with core.named_scope("outer"):
            return block(x) * 2

    sine, product = core.make_jaxpr(f)(1.0).eqns
    assert sine.source_info.name_stack == ("outer", "block")
    assert product.source_info.name_stack == ("outer",)


def test_names_of_transforms_are_those_of_jax():
    def nested(m, np_):
        def f(x):
            with m.named_scope("outer"):
                return block(x) * 2.0

        def block(x):
            with m.named_scope("block"):
                return np_.sin(x)

        def under(x):
            with m.named_scope("top"):
                return m.vmap(m.grad(f))(x)

        return [
            f,
            m.grad(f),
            m.grad(m.grad(f)),
            m.vmap(m.grad(f)),
            under,
            m.grad(m.jit(f)),
            m.grad(lambda x: m.vmap(f)(x).sum()),
            lambda x: m.jvp(f, (x,), (x,)),
        ]

    def names(jaxpr):
        for eqn in jaxpr.eqns:
            yield eqn.primitive.name, str(eqn.source_info.name_stack)
            if eqn.primitive.name in ("jit", "pjit"):
                yield from names(eqn.params["jaxpr"])

    for ours, theirs, x in zip(
        nested(core, cnp), nested(jax, jnp), [1.0, 1.0, 1.0, X, X, 1.0, X, 1.0], strict=True
    ):
        assert list(names(core.make_jaxpr(ours)(x))) == list(names(jax.make_jaxpr(theirs)(x)))


def places(text):
    """Each op of a module, and the names and lines of its location."""
    known = dict(re.findall(r"^(#loc\d*) = (loc\(.*\))$", text, re.M))

    def whole(loc):
        return re.sub(r"#loc\d*", lambda m: whole(known[m[0]]), loc)

    ops = re.findall(r"(stablehlo\.\w+|call @\w+).*loc\((#loc\d*)\)$", text, re.M)
    found = []
    for op, place in ops:
        names = re.findall(r'"([^"]*)"', whole(known[place]))
        if op != "stablehlo.constant":
            found.append((op, [n for n in names if n != __file__ and n != "<module>"]))
    return found


def test_locations_are_written_as_jax_writes_them():
    def program(m, np_):
        @m.jit
        def inner(x):
            return np_.sin(x)

        def turn(x):
            return np_.exp(x)

        def f(x, p):
            with m.named_scope("first"):
                y = inner(x) * p["w"]
            return turn(inner(y))

        return f

    jitted = jax.jit(program(jax, jnp)), core.jit(program(core, cnp))
    theirs, ours = (j.lower(X, {"w": X}).as_text(debug_info=True) for j in jitted)
    expected = [
        (op, [n for n in names if "test_locations" not in n.rpartition(".")[2]])
        for op, names in places(theirs)
    ]
    assert [op for op, _ in places(ours)] == [op for op, _ in expected]
    assert [names[0] for _, names in places(ours)] == [names[0] for _, names in expected]
    assert "jit(f)/first/mul" in [names[0] for _, names in places(ours)]


def test_bodies_have_the_names_of_their_loops():
    def f(x):
        x = core.lax.fori_loop(0, x.astype(int), lambda _, c: cnp.sin(c), x)
        return core.lax.cond(x > 0, lambda c: cnp.exp(c), lambda c: cnp.cos(c), x)

    names = {names[0] for _, names in places(core.jit(f).lower(1.0).as_text(debug_info=True))}
    assert {"jit(f)/while/body/sin", "jit(f)/while/cond/lt"} <= names
    assert {"jit(f)/cond/branch_0_fun/cos", "jit(f)/cond/branch_1_fun/exp"} <= names


# ---- the stream ---------------------------------------------------------------------------------


def test_the_stream_tells_each_step():
    seen = []
    with core.listen(lambda event: seen.append((event.kind, event.name))):
        core.grad(lambda x: cnp.sin(x))(1.0)
    assert ("bind", "sin") in seen
    assert ("rule", "sin") in seen
    assert ("record", "mul") in seen
    count = len(seen)
    core.grad(lambda x: cnp.sin(x))(1.0)
    assert len(seen) == count


def test_listeners_may_be_nested():
    outer, inner = [], []
    with core.listen(outer.append):
        with core.listen(inner.append):
            cnp.sin(1.0)
        cnp.sin(1.0)
    assert len(outer) == 2 * len(inner) > 0


# ---- methods of traced values -------------------------------------------------------------------

METHODS = {
    **dict.fromkeys("all any argmax argmin flatten max mean min ravel".split(), ()),
    **dict.fromkeys("squeeze std sum transpose var".split(), ()),
    "astype": ("bfloat16",),
    "clip": (0.2, 0.5),
    "dot": (np.ones((3, 2), np.float32),),
    "reshape": (3, 2),
}
PROPERTIES = ("T", "at", "dtype", "imag", "ndim", "real", "shape", "size", "weak_type", "aval")
ELSEWHERE = "block_until_ready buffer device devices is_deleted item live tolist".split()
M = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
UNDER = {
    "jit": lambda f: core.jit(f)(M),
    "vmap": lambda f: core.vmap(f)(M[None])[0],
    "jvp": lambda f: core.jvp(f, (M,), (M,))[0],
    "grad": lambda f: core.vjp(f, M)[0],
    "scan": lambda f: core.scan(lambda c, x: (c, f(x)), 0.0, M[None])[1][0],
}


def test_every_method_of_an_array_is_in_a_table():
    public = {name for name in dir(cnp.array(M)) if not name.startswith("_")}
    assert public == {*METHODS, *PROPERTIES, *ELSEWHERE}


@pytest.mark.parametrize("under", UNDER)
def test_methods_of_traced_values(under):
    here = cnp.array(M)
    for name, args in METHODS.items():
        found = UNDER[under](lambda x, name=name, args=args: getattr(x, name)(*args))
        wanted = getattr(here, name)(*args)
        assert (name, found.dtype, found.shape) == (name, wanted.dtype, wanted.shape)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-6, err_msg=name)
    for name in ("T", "imag", "real"):
        found = UNDER[under](lambda x, name=name: getattr(x, name))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(getattr(here, name)))


def test_functions_are_traced_in_the_order_that_jax_has():
    def order(cond, while_loop):
        seen = []
        while_loop(
            lambda x: (seen.append("test"), x < 3)[1], lambda x: (seen.append(x), x + 1)[1], 0
        )
        cond(True, lambda: (seen.append("true"), 1)[1], lambda: (seen.append("false"), 2)[1])
        return [name if isinstance(name, str) else "body" for name in seen]

    theirs = order(jax.lax.cond, jax.lax.while_loop)
    assert order(core.cond, core.while_loop) == theirs == ["test", "body", "true", "false"]
