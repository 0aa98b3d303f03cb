"""Every kind of call gives the program that the call would run, with named inputs."""

import dataclasses
import enum
import functools
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.questions.trace.row import all_rungs
from jaxlens.stages.driver import capture
from jaxlens.views.header import header_line as words

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((2, 3), np.float32)


def loss(params, x, *, scale=1.0):
    return (x @ params["w"]).sum() * scale


PARAMS = {"w": np.ones((3, 4), np.float32)}


def names(taken):
    return [i.name for i in taken.program.inputs]


def statics(taken):
    return {s.name: s.text for s in taken.program.statics}


def same_program(taken, reference, *args):
    jitted = reference if hasattr(reference, "trace") else jax.jit(reference)
    expected = jitted.trace(*args).jaxpr.pretty_print(use_color=False)
    assert taken.jaxpr.text == expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: loss, ()),
        (lambda: jax.jit(loss), ()),
        (lambda: jax.grad(loss), ("grad",)),
        (lambda: jax.jit(jax.value_and_grad(loss)), ("value_and_grad",)),
        (lambda: jax.hessian(loss), ("jacfwd", "jacrev")),
        (lambda: jax.vmap(jax.grad(loss), (None, 0)), ("vmap", "grad")),
        (lambda: jax.jit(jax.vmap(loss, (None, 0))), ("vmap",)),
        (lambda: jax.checkpoint(loss), ()),
    ],
)
def test_transformed_functions(make, expected):
    f = make()
    taken = capture(f, (PARAMS, X))
    assert names(taken) == ["params['w']", "x"]
    assert taken.program.name == "loss"
    assert taken.program.transforms == expected
    assert taken.program.span.line == loss.__code__.co_firstlineno
    same_program(taken, f, PARAMS, X)


def test_keywords_and_stars_are_named_as_python_binds_them():
    def f(a, *rest, k, **more):
        return a + rest[0] * rest[1] + k + more["z"]

    taken = capture(f, (1.0, np.float32(2), jnp.ones(3)), {"z": 4, "k": 5.0})
    assert names(taken) == ["a", "rest[0]", "rest[1]", "k", "z"]
    assert [str(i.type) for i in taken.program.inputs] == [
        "f32[]",
        "f32[]",
        "f32[3]",
        "f32[]",
        "i32[]",
    ]
    assert [i.type.weak for i in taken.program.inputs] == [True, False, False, True, True]


def test_keywords_that_are_no_names_stand_as_they_are_looked_up():
    def f(**more):
        return more["a b"]["k"] + more["c;d"]

    taken = capture(f, (), {"a b": {"k": X}, "c;d": X, "e f": None})
    assert names(taken) == ["more['a b']['k']", "more['c;d']"]
    assert statics(taken) == {"more['e f']": "None"}
    assert words(taken.program).startswith("f(more) with more['a b']['k'] f32[2,3], ")


def test_a_decorated_jitted_function_is_looked_at_with_its_decorator():
    @jax.jit
    def f(x):
        return x + 1

    @functools.wraps(f)
    def tripled(x):
        return f(x) * 3

    taken = capture(tripled, (X,))
    same_program(taken, lambda x: tripled(x), X)
    assert [n.opcode for n in taken.jaxpr.module.nodes()] == ["jit", "mul", "add"]


class Nameless:
    """A callable without `__name__`, whose attribute lookup is its own, as a Flax module's."""

    def __getattr__(self, name):
        raise AttributeError(name)

    def __delattr__(self, name):
        raise AttributeError(name)

    def __call__(self, x):
        return (x * 2).sum()


@pytest.mark.parametrize(
    ("made", "title"),
    [
        (lambda f: jax.jit(jax.vmap(f)), "vmap(Nameless)"),
        (lambda f: jax.jit(jax.vmap(jax.vmap(f))), "vmap(vmap(Nameless))"),
        (lambda f: jax.vmap(jax.grad(f)), "vmap(grad(Nameless))"),
        (lambda f: jax.jit(functools.partial(jax.vmap(f))), "vmap(Nameless)"),
    ],
)
def test_each_transform_is_named_once(made, title):
    assert words(capture(made(Nameless()), (X,)).program).startswith(f"{title}(")


@pytest.fixture
def leaked():
    kept = []

    @jax.jit
    def keeps(x):
        kept.append(x * 2)
        return x

    keeps(X)
    return kept[0]


def test_a_leaked_tracer_that_a_function_closes_over_is_jaxs_own_error(leaked):
    def uses(x):
        return x + leaked

    for verb in ("jaxpr", "stablehlo", "optimized"):
        with pytest.raises(jax.errors.UnexpectedTracerError, match=r"created on line .*keeps"):
            getattr(capture(uses, (X,)), verb)


def test_a_value_that_is_being_traced_is_no_array():
    @jax.jit
    def outer(x):
        with pytest.raises(OptionError, match="closes over a value that JAX is tracing"):
            _ = capture(lambda y: x + y, (X,)).jaxpr
        return x

    outer(X)


def test_a_leaked_tracer_as_an_argument_is_one_line(leaked):
    with pytest.raises(OptionError, match=r"^expected arrays, got a tracer for y \(f32\[2,3\]\): "):
        capture(lambda x, y: x + y, (X, leaked))


class Mode(enum.Enum):
    FAST = 1


def test_what_is_no_array_is_static_wherever_it_stands():
    def f(x, mode, act, options, module, nothing=None, train=True):
        assert (mode, nothing, train) == ("mean", None, True)
        assert options["kind"] is Mode.FAST
        return act(x * options["rate"]) * module.pi

    taken = capture(f, (X, "mean", jax.nn.relu, {"kind": Mode.FAST, "rate": 0.5}, math))
    assert names(taken) == ["x", "options['rate']"]
    assert statics(taken) == {
        "mode": "'mean'",
        "act": "relu",
        "options['kind']": "<Mode.FAST: 1>",
        "module": "math",
    }
    taken = capture(f, (X, "mean", jax.nn.relu, {"kind": Mode.FAST, "rate": 1}, math, None, True))
    assert statics(taken)["train"] == "True"
    assert statics(taken)["nothing"] == "None"
    assert taken.outputs[0].type.shape == (2, 3)


def test_statics_that_cannot_be_hashed_or_printed():
    class Rude:
        def __repr__(self):
            raise RuntimeError("no")

    class Addressed:
        pass

    @functools.partial(jax.jit, static_argnames=("rude", "thing"))
    def static(x, rude, thing):
        return x

    def f(x, words):
        return x * len(words)

    taken = capture(static, (X, Rude(), Addressed()))
    assert statics(taken)["rude"] == "<Rude instance>"
    assert "0x" not in statics(taken)["thing"]
    assert capture(f, (X, ["a", {"b": "c"}])).jaxpr.text.count("2.0:f32[]") == 1


class Line:
    def __init__(self):
        self.slope = jnp.ones(3)

    def at(self, x):
        return x * self.slope


class CallableLine(Line):
    __call__ = Line.at


class Settings:
    rate = 0.1


def on_line(line, x, mode="mean"):
    return x


@pytest.mark.parametrize("line", [Line(), CallableLine(), Settings(), {"k": [Line()]}])
@pytest.mark.parametrize("f", [on_line, functools.partial(on_line, mode="sum")])
def test_an_object_that_jax_does_not_know_is_its_own_error(line, f):
    with pytest.raises(TypeError) as truth:
        jax.jit(f).trace(line, X)
    with pytest.raises(TypeError) as caught:
        capture(f, (line, X))

    def words(error):
        return re.sub(r"0x\w+", "", str(error.value))

    if f is on_line:  # of a partial JAX prints its arguments
        assert words(caught) == words(truth)
    assert "passed to the function at path line" in words(caught)
    note = caught.value.__notes__[-1]
    assert "register_dataclass(" in note
    assert "jax.jit(on_line, static_argnames='line')" in note


def test_what_the_error_on_an_unknown_object_says_to_do_works():
    given = jax.jit(on_line, static_argnames="line")
    assert names(capture(given, (Line(), X))) == ["x"]
    known = dataclasses.make_dataclass("Known", [("slope", jax.Array)])
    jax.tree_util.register_dataclass(known)
    assert names(capture(on_line, (known(jnp.ones(3)), X))) == ["line.slope", "x"]
    assert names(capture(Line().at, (X,))) == ["x"]
    assert names(capture(functools.partial(on_line, Line()), (X,))) == ["x"]


def test_long_statics_are_cut():
    taken = capture(lambda x, s: x, (X, "a" * 10_000))
    assert len(statics(taken)["s"]) <= 80


def test_jit_settings_are_kept():
    @functools.partial(jax.jit, static_argnames=("n", "mode"), donate_argnums=0)
    def f(state, x, n, mode="a"):
        return jax.tree.map(lambda s: s * n + x.sum(), state)

    taken = capture(f, ({"s": jnp.ones(3)}, X, 4), {"mode": "b"})
    assert statics(taken) == {"n": "4", "mode": "'b'"}
    assert [(i.name, i.donated) for i in taken.program.inputs] == [
        ("state['s']", True),
        ("x", False),
    ]
    assert "tf.aliasing_output" in taken.stablehlo.text
    assert taken.program.name == "f"
    assert taken.driver.lowered.args_info[0][0]["s"].donated


def test_partials_are_opened():
    jitted = functools.partial(jax.jit(loss), PARAMS, scale=2)
    assert names(capture(jitted, (X,))) == ["params['w']", "x", "scale"]
    jitted = functools.partial(jax.jit(loss, static_argnames="scale"), scale=3)
    assert statics(capture(jitted, (PARAMS, X))) == {"scale": "3"}
    jitted = jax.tree_util.Partial(jax.jit(loss), PARAMS)
    assert names(capture(jitted, (X,))) == ["params['w']", "x"]


def power(x, n, w=None, act=jnp.tanh):
    for _ in range(n):
        x = x * x
    return act(x if w is None else x @ w)


@pytest.mark.parametrize(
    ("partial", "fixed", "held"),
    [
        (functools.partial(power, n=3), {"n": "3"}, []),
        (
            functools.partial(power, jnp.ones((3, 3)), 1, act=jnp.sin),
            {"n": "1", "act": "sin"},
            ["x"],
        ),
        (functools.partial(functools.partial(power, w=X.T), n=2), {"n": "2"}, ["w"]),
        (jax.tree_util.Partial(power, n=2, w=X.T), {"n": "2"}, ["w"]),
        (functools.partial(jax.grad(lambda x, n: (x**n).sum()), n=2), {"n": "2"}, []),
    ],
)
def test_a_partial_that_is_not_jitted_closes_over_what_it_binds(partial, fixed, held):
    args = () if held == ["x"] else (X,)
    taken = capture(partial, args)
    same_program(taken, partial, *args)
    assert names(taken) == (["x"] if args else [])
    assert statics(taken) == fixed
    assert [(c.name, c.held) for c in taken.constants] == [
        (name, "argument of a partial") for name in held
    ]
    assert taken.program.span is not None
    is_grad = partial.func is not power
    assert taken.program.transforms == (("grad",) if is_grad else ())


def test_the_ladder_of_a_partial():
    partial = functools.partial(jax.vmap(jax.grad(loss), (None, 0)), PARAMS)
    ladder = all_rungs(capture(partial, (X,)))
    assert [r.program.transforms for r in ladder] == [(), ("grad",), ("vmap", "grad")]
    partial = functools.partial(jax.grad(lambda x, n: (x**n).sum()), n=2)
    for rung in all_rungs(capture(partial, (X,))):
        assert names(rung) == ["x"]
        assert statics(rung) == {"n": "2"}


class Model:
    def __init__(self):
        self.w = jnp.ones(3)

    def predict(self, x, mode="a"):
        return x * self.w

    def __call__(self, x):
        return self.predict(x)

    @functools.partial(jax.jit, static_argnums=0)
    def fast(self, x):
        return x + self.w

    @classmethod
    def made(cls, x):
        return x * 2

    @staticmethod
    def plain(x):
        return x * 3


@pytest.mark.parametrize("method", ["predict", "__call__", "fast", "made", "plain"])
def test_methods_of_ordinary_objects(method):
    model = Model()
    taken = capture(getattr(model, method), (X,), name=f"model.{method}")
    assert names(taken) == ["x"]
    assert len(list(taken.jaxpr.module.nodes())) >= 1
    captured = [c.name for c in taken.constants]
    assert captured == ([] if method in ("made", "plain") else ["self.w"])


def test_a_callable_object_that_is_no_pytree():
    taken = capture(Model(), (X,), name="model")
    assert (taken.program.name, names(taken)) == ("model", ["x"])
    assert taken.program.span.function == "Model.__call__"


@dataclasses.dataclass
class Tree:
    w: jax.Array
    rate: float

    def __call__(self, x):
        return x * self.w if self.rate > 0.5 else x


jax.tree_util.register_dataclass(Tree, data_fields=["w", "rate"], meta_fields=[])


def test_a_callable_pytree_is_an_input_and_its_numbers_are_static():
    taken = capture(Tree(jnp.ones(3), 0.7), (X,), name="layer")
    assert names(taken) == ["layer.w", "x"]
    assert statics(taken) == {"layer.rate": "0.7"}
    assert [n.opcode for n in taken.jaxpr.module.nodes()][-1] == "mul"
    assert taken.constants == ()


def test_builtins_and_numpy_functions():
    taken = capture(jnp.tanh, (X,))
    assert [n.opcode for n in taken.jaxpr.module.nodes()] == ["tanh"]
    assert taken.program.name == "tanh"


@pytest.mark.parametrize("bad", [3, "f", None, X])
def test_what_cannot_be_called(bad):
    with pytest.raises(OptionError, match="expected a function to look at, got"):
        capture(bad, (X,))


@pytest.mark.parametrize("path", ["dumps/", "step.hlo", Path("dumps")], ids=str)
def test_a_file_that_is_not_there(path):
    with pytest.raises(OptionError, match=r"there is no file or folder .*(dumps|step)"):
        jaxlens.capture(path)


def test_a_compiled_program_cannot_be_traced():
    compiled = jax.jit(lambda x: x).lower(X).compile()
    with pytest.raises(OptionError, match="holds no Python"):
        capture(compiled, (X,))


def test_the_users_own_error_comes_through_with_what_to_do():
    def f(x, n):
        return x.reshape(n, -1)

    with pytest.raises(TypeError) as caught:
        _ = capture(f, (X, 3)).jaxpr
    assert "static_argnames='n'" in "".join(caught.value.__notes__)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        _ = capture(lambda x: x if x.sum() > 0 else -x, (X,)).jaxpr


@pytest.mark.models
class TestEquinox:
    @pytest.fixture
    def model(self):
        eqx = pytest.importorskip("equinox")
        return eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))

    def test_a_model_is_an_input(self, model):
        taken = capture(model, (jnp.ones(2),), name="model")
        assert names(taken)[0] == "model.layers[0].weight"
        assert statics(taken)["model.activation"] == "relu"
        assert taken.constants == ()

    @pytest.mark.parametrize("wrap", ["filter_jit", "filter_grad", "filter_value_and_grad"])
    def test_filtered_functions(self, model, wrap):
        import equinox as eqx

        f = getattr(eqx, wrap)(lambda m, x: m(x).sum())
        taken = capture(f, (model, jnp.ones(2)))
        assert names(taken)[0] == "m.layers[0].weight"
        assert len(list(taken.jaxpr.module.nodes())) > 5


@pytest.mark.models
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestNnx:
    @pytest.fixture
    def model(self):
        nnx = pytest.importorskip("flax.nnx")
        return nnx.Linear(3, 4, rngs=nnx.Rngs(0))

    def test_a_mapped_model_is_mapped_once(self, model):
        taken = capture(jax.jit(jax.vmap(model)), (jnp.ones((2, 3)),))
        assert words(taken.program).startswith("vmap(Linear)(")

    @pytest.mark.parametrize("wrap", ["jit", "grad", "value_and_grad"])
    def test_transformed_functions(self, model, wrap):
        from flax import nnx

        f = getattr(nnx, wrap)(lambda m, x: m(x).sum())
        taken = capture(f, (model, X))
        assert len(taken.program.inputs) == len(jax.tree.leaves(model)) + 1
        assert taken.stablehlo.text
