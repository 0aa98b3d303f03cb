"""Writes of an unjitted function into its arguments are part of its program, and reported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support import jitted_programs
from tests.support.compiled_by_jax import difference, ran
from tests.support.model_programs import MARKS

pytestmark = [pytest.mark.backend, *MARKS, pytest.mark.reads_jax]

X = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32)
Y = X[:, :4] ** 2


@pytest.fixture
def parts():
    return pytest.importorskip("flax.nnx"), *jitted_programs.nnx_parts()


def test_a_step_that_is_not_jitted_has_its_updates(parts):
    nnx, model, opt, step = parts
    capture = jaxlens.capture(step, model, opt, X, Y)
    outputs = [o.name for o in capture.outputs]
    assert outputs[0] == "result"
    parts = "drop.rngs.count first.bias first.kernel last.bias last.kernel norm.bias norm.mean "
    parts += "norm.scale norm.var"
    assert outputs[1:10] == [f"new model.{part}.value" for part in parts.split()]
    assert outputs[-1] == "new optimizer.step.value"
    # Flax's own jit of the function computes as much, by XLA's own count.
    real = nnx.jit(step).lower(model, opt, X, Y).compile().cost_analysis()
    assert capture.cost["flops"] == real["flops"]
    products = [n for n in capture.jaxpr.module.nodes() if n.opcode == "dot_general"]
    assert len(products) == 5  # two forward, three backward: x needs no gradient
    assert all(capture.links.fate(n.id).name != "dead" for n in products)


def test_its_first_lines_say_what_jit_would_lose(parts, tmp_path):
    _, model, opt, step = parts
    capture = jaxlens.capture(step, model, opt, X, Y)
    (sentence,) = capture.deviations
    assert sentence.startswith(
        "train_step writes into its arguments (model.drop.rngs.count.value, "
        "model.first.bias.value and 21 more); under jax.jit that is lost"
    )
    for shown in (jaxlens.jaxpr(capture), jaxlens.cost(step, model, opt, X, Y)):
        assert "under jax.jit that is lost" in " ".join(str(shown).split())
    capture.save(tmp_path / "step", stages=["jaxpr"])
    assert jaxlens.load(tmp_path / "step").deviations == (sentence,)


def test_looking_at_it_writes_nothing(parts):
    nnx, model, opt, step = parts
    before = list(map(str, jax.tree.leaves((nnx.state(model), nnx.state(opt)))))
    capture = jaxlens.capture(step, model, opt, X, Y)
    _ = capture.optimized
    assert before == list(map(str, jax.tree.leaves((nnx.state(model), nnx.state(opt)))))


def test_the_statistics_of_a_forward_pass(parts):
    _, model, _, _ = parts
    capture = jaxlens.capture(model, X)
    assert [o.name for o in capture.outputs] == [
        "result",
        "new self.drop.rngs.count.value",
        "new self.norm.mean.value",
        "new self.norm.var.value",
    ]
    model.eval()
    capture = jaxlens.capture(model, X)
    assert [o.name for o in capture.outputs] == ["result"]
    assert capture.deviations == ()


def test_what_is_written_into_a_dict_and_into_nothing():
    def scaled(batch, k, *, mode="mean"):
        batch["x"] = batch["x"] / k
        batch["again"] = [batch["x"] * 2]
        return batch["x"].sum()

    batch = {"x": X, "y": Y}
    capture = jaxlens.capture(scaled, batch, 2.0, mode="sum")
    assert [o.name for o in capture.outputs] == [
        "result",
        "new batch['again'][0]",
        "new batch['x']",
    ]
    assert batch.keys() == {"x", "y"}
    assert batch["x"] is X

    def pure(batch):
        return {**batch, "x": batch["x"] + 1}

    shown = jaxlens.capture(pure, batch).optimized.text
    assert not difference(shown, ran(jax.jit(pure), (batch,), {}))
    assert jaxlens.capture(pure, batch).deviations == ()


def test_a_container_that_makes_its_leaves_anew_was_not_written():
    class Fresh:
        def __init__(self, x):
            self.x = x

        def parts(self):
            return ((self.x * 1 if isinstance(self.x, jax.Array) else self.x,), None)

    jax.tree_util.register_pytree_node(Fresh, Fresh.parts, lambda _, xs: Fresh(xs[0]))
    capture = jaxlens.capture(lambda fresh: fresh.x.sum(), Fresh(jnp.ones(3)))
    assert [o.name for o in capture.outputs] == ["result"]
    assert capture.deviations == ()
