"""The row of transforms: the program that each makes, beside what JAX makes, and what changed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import api, core
from jaxlens.core import numpy as cnp
from jaxlens.errors import LensError
from jaxlens.notebook.widgets.transformed import with_transform

W, X = np.ones((3, 4), np.float32), np.ones(3, np.float32)
BATCH = jax.ShapeDtypeStruct((8, 3), jnp.float32)
VMAPPED = [("vmap", "None,0"), ("grad", "x")]
ran = []


def loss(w, x):
    ran.append(isinstance(x, jax.core.Tracer))
    return jnp.sum(jnp.tanh(x @ w))


def core_loss(w, x):
    return cnp.sum(cnp.tanh(x @ w))


def under(capture, *transforms):
    """The capture under transforms, innermost first: "vmap None,0"."""
    for transform in transforms:
        name, _, value = transform.partition(" ")
        capture = api.transformed(capture, name, value)
    return capture


CASES = {
    "grad x": (jax.grad(loss, 1), X),
    "grad 0,1": (jax.grad(loss, (0, 1)), X),
    "vmap None,0": (jax.vmap(loss, (None, 0)), BATCH),
    "grad 1/vmap None,0": (jax.vmap(jax.grad(loss, 1), (None, 0)), BATCH),
    "checkpoint/grad": (jax.grad(jax.checkpoint(loss)), X),
    "jit": (loss, X),
}


@pytest.mark.parametrize("looked", [False, True], ids=["anew", "after a look"])
@pytest.mark.parametrize(("presses", "case"), CASES.items(), ids=CASES)
def test_each_press_makes_the_program_that_jax_makes(presses, case, looked):
    f, x = case
    capture = jaxlens.capture(loss, W, X)
    if looked:
        capture.optimized  # its arrays are let go
    equations = jax.make_jaxpr(f)(W, x).jaxpr.eqns
    made = under(capture, *presses.split("/"))
    assert [node.opcode for node in made.jaxpr.module.body().nodes] == [
        equation.primitive.name for equation in equations
    ]
    assert all(ran)  # traced, and never run


def test_the_core_transforms_its_own_functions():
    capture = jaxlens.capture(core_loss, core.array(W), core.array(X))
    capture.stablehlo.module.body()
    made = under(capture, "grad x", "vmap None,0")
    assert made.program.engine == "by jaxlens.core"
    title = "vmap(grad(core_loss))(w, x) with w f32[3,4], x f32[8,3] on cpu, by jaxlens.core"
    assert str(jaxlens.jaxpr(made)).replace("\n    ", " ").startswith(title)
    outer = core.vmap(core.grad(core_loss, 1), (None, 0))
    same = jaxlens.capture(outer, core.array(W), core.array(np.ones((8, 3), np.float32)))
    assert len(made.jaxpr.module.body().nodes) == len(same.jaxpr.module.body().nodes)
    assert "checkpoint(" in str(jaxlens.jaxpr(under(made, "checkpoint")))


class Model:
    """No pytree: its method's object is static."""

    def loss(self, key, x):
        return jnp.sum(jnp.sin(x)) + 0 * jax.random.uniform(key)


def scaled(x, times, n):
    return jnp.sum(x) * n if times == "n" else x


def test_what_is_static_stays_so_and_the_gradient_is_by_what_has_one():
    made = under(jaxlens.capture(Model().loss, jax.random.key(0), X), "grad", "vmap 0,0,0")
    title = str(jaxlens.jaxpr(made)).replace("\n    ", " ")
    assert title.startswith("vmap(grad(loss))(key, x) with key key<fry>[8], x f32[8,3]")
    assert "cos" in [node.opcode for node in made.jaxpr.module.nodes()]
    plain = under(jaxlens.capture(scaled, X, "n", 3), "grad")
    jitted = under(jaxlens.capture(jax.jit(scaled, static_argnums=(1, 2)), X, "n", 3), "grad")
    for made, static in ((plain, "static times='n'"), (jitted, "static times='n', n=3")):
        assert static in str(jaxlens.jaxpr(made)).partition("\n\n")[0].replace("\n    ", " ")


@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile", "explore"])
def test_a_look_begins_with_what_changed(verb):
    before = getattr(jaxlens, verb)(loss, W, X)
    after = with_transform(before, "grad", "")
    assert after.document.verb == verb
    title, _, said = str(after).partition("\n\n")
    first, *rest = said.splitlines()
    assert title.startswith("grad(loss)(w, x) with w f32[3,4], x f32[3]")
    # jax 0.12 makes two equations less of the backward pass.
    made = sum(len(region.nodes) for region in after.capture.jaxpr.module.regions.values())
    assert (
        first == f"- grad made {made} equations of the 3 of loss: 4 forward, {made - 4} backward."
    )
    counts = f"optimised HLO 2 to {len(after.capture.kernels)}"
    assert (counts in " ".join(" ".join(rest).split())) == (verb != "jaxpr")
    assert "not saved with the notebook" in str(after)
    again = with_transform(after, "jit", "")
    assert str(again).splitlines()[2].startswith("- jit changes no equation")


def test_what_does_not_fit_is_said_in_one_line():
    capture = jaxlens.capture(loss, W, X)
    for name, value, says in (
        ("vmap", "0,0,0", "vmap takes an axis for each of 2 arguments, got 3: 0,0"),
        ("vmap", "0,7", "an array of shape (3,) cannot have axis 7"),
        ("vmap", "zero", "got 'zero'"),
        ("grad", "y", "no positional argument 'y'"),
        ("pmap", "", "no transform 'pmap'"),
    ):
        with pytest.raises(LensError) as caught:
            api.transformed(capture, name, value)
        assert says in str(caught.value)
    text = jaxlens.capture(capture.stablehlo.text)
    with pytest.raises(LensError, match="Python function"):
        api.transformed(text, "grad", "")


def test_the_line_transforms_as_the_row_does():
    """A model that holds functions is transformed by its arrays; a text and a static stay so."""
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, "scalar", 4, 1, key=jax.random.key(0))

    def error(model, x):
        return jnp.square(model(x))

    jitted = jax.jit(scaled, static_argnums=(1, 2))
    calls = [(error, (model, X), ""), (scaled, (X, "n", 3), ""), (jitted, (X, "n", 3), "")]
    calls.append((Model().loss, (jax.random.key(0), X), "x"))
    for f, args, by in calls:
        line = api.take(f, args, {}, transforms=[("grad", by)])
        row = under(jaxlens.capture(f, *args), "grad")
        assert line.jaxpr.text == row.jaxpr.text
        assert "grad(" in str(jaxlens.jaxpr(line))
    batched = api.take(error, (model, np.ones((5, 3), np.float32)), {}, transforms=VMAPPED)
    assert "vmap(grad(error))(model, x) with" in str(jaxlens.jaxpr(batched))


def product(w, x):
    return x @ w


def test_a_press_is_answered_by_the_kernel():
    sent: list[Any] = []
    explorer = jaxlens.Explorer(jaxlens.jaxpr(product, W, X))
    explorer.send = lambda content, buffers=None: sent.append(content)
    for what in (["jvp", ""], ["vmap", "0,0,0"], ["grad", ""], ["grad"]):
        explorer._hear(explorer, {"ask": 1, "what": {"transform": what}}, [])
    made, axes, vector, short = sent
    assert "jvp(product)(w, x, tangents)" in made["ok"]
    assert axes["error"].startswith("vmap takes an axis for each of 2 arguments")
    assert vector["error"].startswith("TypeError: Gradient only defined for scalar-output")
    assert "\n" not in vector["error"]
    assert short["error"].startswith("ValueError")
    explorer.close()
