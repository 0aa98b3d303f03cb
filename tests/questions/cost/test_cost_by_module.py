"""Cost by module and layer, against flops counted by hand."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.ir.facts import Limits
from jaxlens.links.name_stack import module_path
from jaxlens.questions.cost import roofline
from jaxlens.questions.cost.modules import ModuleCost, shares
from jaxlens.report import share

pytestmark = pytest.mark.backend
B, D, H = 8, 16, 32


def net(w, x):
    with jax.named_scope("Net"):
        for n, part in enumerate(w):
            with jax.named_scope(f"Layer_{n}"):
                x = jnp.tanh(x @ part)
    return x.sum()


W = [jax.ShapeDtypeStruct(s, "float32") for s in ((D, H), (H, D))]
X = jax.ShapeDtypeStruct((B, D), "float32")


def by_path(answer):
    return {module.path: module for module in answer.modules}


def test_flops_forward_and_backward_are_those_by_hand():
    found = by_path(jaxlens.cost(jax.grad(net), W, X))
    inside = [("Net",), ("Net", "Layer_0"), ("Net", "Layer_1")]
    assert list(found) == [*inside, ("(in no module)",)]
    whole = jaxlens.cost(jax.grad(net), W, X).flops
    assert sum(one.flops for path, one in found.items() if len(path) == 1) == whole
    first, second = found["Net", "Layer_0"], found["Net", "Layer_1"]
    product = 2 * B * D * H
    # tanh's derivative is (1 - y) * (1 + y), of which the cotangent's part is the backward pass.
    assert first.forward - product in range(4 * B * H)
    assert second.forward - product in range(4 * B * D)
    assert first.backward - product in range(4 * B * H)  # of w alone: x has no gradient
    assert second.backward - 2 * product in range(4 * B * D)  # of w, and of its input
    whole = found[("Net",)]
    assert whole.forward == first.forward + second.forward
    assert whole.backward == first.backward + second.backward
    assert 0 < first.bytes + second.bytes <= whole.bytes


def test_a_loop_counts_as_often_as_it_runs():
    def rolled(w, x):
        def body(x, part):
            with jax.named_scope("Layer"):
                return jnp.tanh(x @ part), None

        with jax.named_scope("Net"):
            return jax.lax.scan(body, x, w)[0]

    w = jax.ShapeDtypeStruct((5, D, D), "float32")
    found = by_path(jaxlens.cost(rolled, w, X))
    assert found["Net", "Layer"].forward == 5 * 2 * B * D * D
    assert found["Net", "Layer"].bytes > 0


def test_calls_of_objects_are_modules_told_apart_by_their_attributes():
    class Linear:
        def __call__(self, w, x):
            return x @ w

    class Net:
        def __init__(self):
            self.a, self.b = Linear(), Linear()

        def __call__(self, w, x):
            return self.b(w[1], self.a(w[0], x))

    model = Net()
    found = by_path(jaxlens.cost(lambda w, x: model(w, x), W, X))
    layers = [("model", "model.a"), ("model", "model.b")]
    assert list(found) == [("model",), *layers]
    assert [found[path].forward for path in layers] == [2 * B * D * H] * 2
    assert all(found[path].bytes for path in layers)


@pytest.mark.parametrize("is_named", [False, True])
def test_layers_of_a_list_are_one_row_unless_a_scope_names_each(is_named):
    class Layer:
        def __call__(self, w, x):
            return x @ w

    def model(w, x):
        for n, part in enumerate(w):
            with jax.named_scope(f"layer_{n}") if is_named else nullcontext():
                x = Layer()(part, x)
        return x

    answer = jaxlens.cost(model, W, X)
    hint = "jax.named_scope round each gives it a row"
    assert (hint in " ".join(str(answer).split())) is not is_named
    rows = {path[0].partition(" (")[0]: one.forward for path, one in by_path(answer).items()}
    product = 2 * B * D * H
    layers = {"layer_0": product, "layer_1": product} if is_named else {"Layer": 2 * product}
    assert rows == layers


@pytest.mark.parametrize(
    ("scope", "path", "backward"),
    [
        ("transpose(jvp(Net))/Block_0/Dense_1", ("Net", "Block_0", "Dense_1"), True),
        ("jvp(mlp)/linear_0", ("mlp", "linear_0"), False),
        ("jit(f)/jvp(Net)/while/body/closed_call/Block/jit(relu)", ("Net", "Block"), False),
        ("jvp()", (), False),
        ("rematted_computation/Block", ("Block",), False),
    ],
)
def test_scopes_are_paths(scope, path, backward):
    assert module_path(scope, ()) == (path, backward)


def test_the_tree_is_in_text_and_opens_in_html():
    answer = jaxlens.cost(jax.grad(net), W, X)
    text = str(answer)
    assert "By module" in text
    assert "Layer_1" in text  # the only module of its level is open
    assert "<summary>Net</summary>" in answer.html()


def test_a_program_without_modules_has_no_tree():
    answer = jaxlens.cost(lambda x: x @ x.T, X)
    assert answer.modules == ()
    assert "Modules:" not in str(answer).splitlines()


def test_flax_scopes_have_their_names():
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.Dense(H)(x))
            return linen.Dense(4)(x)

    model = Net()
    x = jnp.ones((B, D))
    params = model.init(jax.random.key(0), x)
    found = by_path(jaxlens.cost(model.apply, params, x))
    assert found["Net", "Dense_0"].forward == 2 * B * D * H + B * H
    assert found["Net", "Dense_1"].forward == 2 * B * H * 4 + B * 4


LIMITS = Limits("this CPU", {"f32": 1e11}, 1e11, 1e10, measured=True)


def test_mfu_is_flops_over_seconds_and_peak(monkeypatch):
    monkeypatch.setattr(roofline, "limits_of", lambda *_: LIMITS)
    n = 256
    cap = jaxlens.capture(lambda x: x @ x, jnp.ones((n, n)))
    answer = jaxlens.cost(cap, run=3, roofline="here")
    seconds = sorted(answer.facts.run().seconds)[1]
    assert answer.mfu == pytest.approx(2 * n**3 / seconds / 1e11)
    assert any("model flops utilisation" in finding.measured for finding in answer.findings)
    assert jaxlens.cost(cap).mfu is None


def test_mfu_is_none_where_another_device_ran_it():
    cap = jaxlens.capture(lambda x: x @ x, jnp.ones((8, 8)))
    answer = jaxlens.cost(cap, run=2, roofline="h100")
    assert answer.mfu is None
    assert not any("utilisation" in finding.measured for finding in answer.findings)


def test_mfu_is_without_what_checkpoint_computes_again(monkeypatch):
    monkeypatch.setattr(roofline, "limits_of", lambda *_: LIMITS)

    def block(x, w):
        return jax.nn.relu(jnp.tanh(x @ w) @ w.T), None

    def gradient(body):
        return jax.grad(lambda w, x: (jax.lax.scan(body, x, w)[0] ** 2).sum())

    w, x = jnp.ones((6, 32, 32)), jnp.ones((64, 32))
    plain = jaxlens.cost(gradient(block), w, x)
    again = jaxlens.cost(
        jaxlens.capture(gradient(jax.checkpoint(block)), w, x), run=3, roofline="here"
    )
    forward = 6 * 2 * 2 * 64 * 32 * 32
    assert again.flops - plain.flops in range(forward // 2, 2 * forward)
    assert again.flops - again.recomputed == pytest.approx(plain.flops, rel=0.02)
    seconds = sorted(again.facts.run().seconds)[1]
    assert again.mfu == pytest.approx((again.flops - again.recomputed) / seconds / 1e11)
    said = [finding.text for finding in again.findings if "utilisation" in finding.measured]
    assert "without what jax.checkpoint computes again" in said[0]


def test_a_wrapper_of_nnx_around_a_derivative_is_no_module():
    nnx = pytest.importorskip("flax.nnx")

    class Head(nnx.Module):
        def __init__(self, rngs):
            self.inner = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return self.inner(x)

    @nnx.jit
    def train(model, x):
        return nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)

    modules = jaxlens.cost(train, Head(nnx.Rngs(0)), jnp.ones((8, 16))).modules
    names = [one.path for one in modules]
    assert names == [("m",), ("m", "m.inner"), ("(in no module)",)]


def test_a_loop_that_xla_rewrites_has_its_module_once():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dropout(0.5, deterministic=False)(nn.Dense(8)(x))

    key, x = jax.random.key(0), jnp.ones((4, 8))
    params = Net().init({"params": key, "dropout": key}, x)
    loss = jax.grad(lambda p, x: Net().apply(p, x, rngs={"dropout": key}).sum())
    paths = by_path(jaxlens.cost(jax.jit(loss), params, x))
    assert {path for path in paths if len(path) > 1} == {("Net", "Dense_0"), ("Net", "Dropout_0")}


def test_modules_are_in_the_text_of_a_measured_answer_too():
    w = [jnp.ones(one.shape) for one in W]
    text = str(jaxlens.cost(jaxlens.capture(jax.grad(net), w, jnp.ones(X.shape)), run=2))
    tree = text.partition("By module")[2]
    assert "backward" in tree.partition("Cost:")[0]


def test_a_scan_of_layers_is_one_module_with_its_slices():
    nn = pytest.importorskip("flax.linen")

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return nn.Dense(8)(nn.relu(x)), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            scan = nn.scan(
                Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3
            )
            return scan(name="layers")(x, None)[0]

    params = Net().init(jax.random.key(0), x := jnp.ones((4, 8)))
    answer = jaxlens.cost(jax.grad(lambda p: (Net().apply(p, x) ** 2).sum()), params)
    roots = [one.path[0] for one in answer.modules if len(one.path) == 1]
    assert roots == ["Net", "(in no module)"]
    net, layers = by_path(answer)["Net",], by_path(answer)["Net", "layers"]
    assert layers.bytes > 0.9 * net.bytes  # slices of stacked weights are the layers' too


def test_a_share_below_one_percent_is_not_zero():
    assert [share(n, 1000) for n in (0, 1, 6, 500)] == ["0%", "< 1%", "1%", "50%"]


def test_the_first_modules_that_have_not_nearly_all_are_said() -> None:
    def cost(*path: str, forward: int) -> ModuleCost:
        return ModuleCost(path, forward)

    modules = [cost("net", forward=95), cost("net", "a", forward=60), cost("net", "b", forward=35)]
    none = cost("(in no module)", forward=5)
    (said,) = shares([*modules, none])
    assert said.text == "Flops by module: net / a 63% and net / b 37%."
    assert not [*shares(modules[:1])]
