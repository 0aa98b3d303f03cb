"""Modules are named by their attribute paths, and looking at them leaves nothing behind."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.compat import called_within
from jaxlens.compat.import_private import private
from jaxlens.links.name_stack import EquationModules, module_text

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]
eqx = pytest.importorskip("equinox")
nnx = pytest.importorskip("flax.nnx")
X = jnp.ones((5, 4))
KEYS = jax.random.split(jax.random.key(0), 8)


def dense(n=0):
    return nnx.Linear(4, 4, rngs=nnx.Rngs(n))


def linear(n=0):
    return eqx.nn.Linear(4, 4, key=KEYS[n])


class TwoOnALine(nnx.Module):
    def __init__(self):
        self.a, self.b = dense(1), dense(2)

    def __call__(self, x):
        return self.b(nnx.relu(self.a(x)))


class Blocks(nnx.Module):
    def __init__(self):
        self.parts = nnx.Dict({"up": dense(1), "down": dense(2)})
        self.more = nnx.List([dense(3), dense(4)])

    def __call__(self, x):
        for part in (*self.parts.values(), *self.more):
            x = part(x)
        return x


class Shared(nnx.Module):
    def __init__(self):
        self.tied = self.also = dense()

    def __call__(self, x):
        return self.also(jnp.tanh(self.tied(x)))


class Made(nnx.Module):
    def __call__(self, x):
        return dense(1)(x)


class Parts(eqx.Module):
    parts: dict
    layers: list

    def __call__(self, x):
        x = jax.vmap(self.parts["a b/c"])(x)
        return jax.lax.fori_loop(0, 2, lambda _, x: jax.vmap(self.layers[1])(x), x)


class Plain:
    def __init__(self):
        self.layers = [lambda x: x, TwoOnALine()]

    def __call__(self, x):
        return self.layers[1](x)


PARTS = Parts({"a b/c": linear(1)}, [linear(2), linear(3)])
CLOSED = eqx.nn.Sequential([linear(0), eqx.nn.Lambda(jnp.tanh), linear(1)])


def apply(model, x):
    return model(x)


def loss(model, x):
    return (model(x) ** 2).sum()


def scanned(layers, x):
    arrays, static = eqx.partition(layers, eqx.is_array)

    def body(x, part):
        layer = eqx.combine(part, static)
        return jax.vmap(layer)(x), None

    return jax.lax.scan(body, x, arrays)[0]


STACKED = eqx.filter_vmap(lambda key: eqx.nn.Linear(4, 4, key=key))(KEYS[:3])


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (apply, (nnx.Sequential(dense(), nnx.relu, dense()),), "model.layers[0] model.layers[2]"),
        (apply, (TwoOnALine(),), "model.a model.b"),
        (nnx.jit(nnx.value_and_grad(loss)), (TwoOnALine(),), "model.a model.b"),
        (apply, (Blocks(),), "model.parts.down model.parts.up model.more[0] model.more[1]"),
        (nnx.jit(apply), (Shared(),), "model.also"),
        (apply, (Made(),), "model / Linear (test_module_paths.py:59)"),
        (TwoOnALine(), (), "TwoOnALine.a TwoOnALine.b"),
        (apply, (Plain(),), "model.layers[1].a model.layers[1].b"),
        (lambda x: jax.vmap(CLOSED)(x), (), "CLOSED.layers[0] CLOSED.layers[2]"),
        (
            eqx.filter_jit(eqx.filter_grad(lambda net, x: jax.vmap(net)(x).sum())),
            (eqx.nn.MLP(4, 4, 8, 1, key=KEYS[0]),),
            "net.layers[0] net.layers[1]",
        ),
        (eqx.filter_jit(apply), (PARTS,), "model.parts['a b/c'] model.layers[1]"),
        (eqx.filter_jit(scanned), (STACKED,), "layer"),
        (lambda f, x: jax.named_scope("loss")(f)(x), (TwoOnALine(),), "loss / f.a loss / f.b"),
        (nnx.remat(apply), (TwoOnALine(),), "model.a model.b"),
    ],
)
def test_the_module_of_each_product_is_its_attribute_path(function, args, wanted):
    jaxpr = jaxlens.capture(function, *args, X).jaxpr.module
    modules = EquationModules(jaxpr)
    products = [node.id for node in jaxpr.nodes() if node.opcode == "dot_general"]
    found = dict.fromkeys(module_text(modules.within([id])[0]) for id in products)
    assert " ".join(found) == wanted


def context():
    return private("source_info_util")._source_info_context.context


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_look_leaves_nothing_behind(error):
    seen = []

    class Net(nnx.Module):
        def __call__(self, x):
            seen.append(weakref.ref(y := jnp.sin(x)))
            if error:
                raise error
            return y

    before, body = context(), dict(vars(Net))
    model = Net()
    capture = jaxlens.capture(lambda x: jax.jit(model)(x), X)
    if error:
        with pytest.raises(error):
            _ = capture.jaxpr
    else:
        assert "Net" not in capture.jaxpr.text
        assert "model" not in str(capture.stablehlo.text)
    assert context() is before
    assert dict(vars(Net)) == body
    del capture
    gc.collect()
    jaxpr = jax.make_jaxpr(model)(X) if error is None else jax.make_jaxpr(jnp.sin)(X)
    assert not any(list(called_within(eqn.source_info.name_stack)) for eqn in jaxpr.eqns)


def test_no_tracer_outlives_the_trace_of_a_gradient():
    with jax.checking_leaks():
        program = jaxlens.capture(lambda m, x: nnx.grad(loss)(m, x), TwoOnALine(), X)
        assert EquationModules(program.jaxpr.module).named


def test_saved_captures_keep_the_names(tmp_path):
    path = tmp_path / "two.jaxlens"
    jaxlens.capture(apply, TwoOnALine(), X).save(path)
    assert EquationModules(jaxlens.load(path).jaxpr.module).named
