"""Whether a program fits a limit, against sizes counted by hand and JAX's own donation."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.ir.facts import Target
from jaxlens.program.published_limits import target_of
from jaxlens.questions.memory import fits
from jaxlens.questions.memory.fits import within
from tests.support.paths import run_python

pytestmark = pytest.mark.backend
N = 1 << 20


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, "float32")


def scaled(state, factor):
    return state * factor


def loss(w, x):
    for part in w:
        x = jnp.tanh(jnp.tanh(x @ part) @ part.T)
    return (x * x).sum()


def test_what_is_reserved_is_compared_with_the_limit():
    answer = jaxlens.fits(scaled, shape(N), shape(), device="16 GB")
    assert answer.takes == 2 * 4 * N + 4  # the argument, the result and the factor
    assert answer.fits is True
    assert answer.actions == ()
    assert answer.findings[0].text == "It fits 16 GB: it takes 8.39 MB, < 1% of that."


def test_a_donation_frees_the_argument():
    answer = jaxlens.fits(scaled, shape(N), shape(), device="5 MB")
    assert answer.fits is False
    (donated,) = [action for action in answer.actions if action.name == "donating state"]
    assert donated.takes == 4 * N + 4  # the result is where the argument was
    assert donated.code == "jax.jit(f, donate_argnames=('state',))"
    real = jaxlens.receipt(jax.jit(scaled, donate_argnames="state"), shape(N), shape())
    assert donated.takes == real.reserved
    texts = [finding.text for finding in answer.findings]
    assert "Donating state: 4.19 MB, which fits" in texts[1]
    assert any(text.startswith("jax.checkpoint was not tried: nothing is diff") for text in texts)


def test_checkpoints_are_tried_where_it_is_differentiated():
    w, x = [shape(64, 64)] * 6, shape(8192, 64)
    answer = jaxlens.fits(jax.grad(loss), w, x, device="4 MB")
    tried = [action for action in answer.actions if action.takes is not None]
    assert any("jax.checkpoint round the whole function" in action.name for action in tried)
    takes = [action.takes for action in tried]
    assert takes == sorted(takes)
    assert "What would fit" in str(answer)


def test_too_near_to_say():
    assert within(98, 100) is None
    assert within(103, 100) is None
    assert within(90, 100) is True
    assert within(110, 100) is False
    near = jaxlens.fits(scaled, shape(N), shape(), device=str(2 * 4 * N))
    assert near.fits is None
    assert "too near to 8.39 MB to say whether it fits" in near.findings[0].text


def test_what_xla_refuses_does_not_fit_and_what_it_compiles_for_a_tpu_may(monkeypatch):
    cap = jaxlens.capture(scaled, shape(N), shape())
    says = "RESOURCE_EXHAUSTED: Ran out of memory on HBM, HLO temporaries (16.41G) exceed (15.75G)."

    def refuse(_):
        raise RuntimeError(says)

    monkeypatch.setattr(fits, "memory_use", refuse)  # as XLA does for a TPU
    answer = jaxlens.fits(cap, device="v5e")
    assert (answer.fits, answer.takes, answer.use) == (False, round(16.41 * 2**30), None)
    assert answer.findings[0].text.startswith(
        "It does not fit: XLA does not compile it for cpu: Ran"
    )
    (donated,) = [action for action in answer.actions if action.name == "donating state"]
    assert (donated.takes, donated.code) == (
        answer.takes - 4 * N,
        "jax.jit(f, donate_argnames=('state',))",
    )
    assert answer.facts.says(donated) == "does not fit"
    assert answer.facts.says(replace(donated, takes=1)) == "may fit"  # what it takes is a bound
    tpu = replace(answer.facts, target=Target("tpu", "TPU v5 lite"), refused="")
    assert tpu.would_fit(17_600_000_000, 15_400_000_000) is None
    assert tpu.would_fit(17_600_000_000, 17_000_000_000) is False


def test_a_device_that_was_not_compiled_for_is_said():
    cap = jaxlens.capture(scaled, shape(N), shape(), target="cpu")
    answer = jaxlens.fits(cap, device="h100")
    assert answer.findings[0].text.startswith("It fits the 63.8 GB that JAX takes by default")
    assert " as compiled for cpu: it takes 8.39 MB, " in answer.findings[0].text
    assert "It was compiled for cpu: XLA would make another program" in answer.findings[1].text
    assert "look with target gpu:h100" in answer.findings[1].text
    assert (target_of("v5e"), target_of("16 GB")) == ("tpu:v5e:2x2", "")


def test_a_device_that_is_not_known_is_one_line():
    with pytest.raises(OptionError, match="no published limits of 'h1000'"):
        jaxlens.fits(scaled, shape(N), shape(), device="h1000")


def test_what_a_jit_of_equinox_or_nnx_would_donate_is_donated():
    def step(model, x):
        return jax.tree.map(lambda leaf: leaf * x.sum(), model), x + 1

    model, x = eqx.nn.MLP(64, 64, 64, 2, key=jax.random.key(0)), jnp.ones(64)
    arrays = eqx.filter(model, eqx.is_array)
    answer = jaxlens.fits(eqx.filter_jit(step), arrays, x, device="1 kB")
    (donated,) = [action for action in answer.actions if action.name == "donating model and x"]
    assert donated.code == 'eqx.filter_jit(f, donate="all")'
    real = jaxlens.receipt(eqx.filter_jit(step, donate="all"), arrays, x)
    assert donated.takes == pytest.approx(real.reserved, rel=0.01)
    assert donated.takes < answer.takes

    def update(model, x):
        model.kernel[...] = model.kernel[...] * x.sum()

    linear = nnx.Linear(64, 64, rngs=nnx.Rngs(0))
    answer = jaxlens.fits(nnx.jit(update), linear, x, device="1 kB")
    (donated,) = [action for action in answer.actions if action.name == "donating model"]
    real = jaxlens.receipt(nnx.jit(update, donate_argnames=("model",)), linear, x)
    assert donated.takes == pytest.approx(real.reserved, rel=0.01)
    assert donated.takes < answer.takes


def test_checkpoint_of_an_equinox_model_is_the_one_that_takes_functions():
    def loss(model, x):
        return (jax.vmap(model)(x) ** 2).sum()

    model = eqx.nn.MLP(8, 8, 8, 2, key=jax.random.key(0))
    answer = jaxlens.fits(eqx.filter_jit(eqx.filter_grad(loss)), model, shape(4, 8), device="1 kB")
    codes = [a.code for a in answer.actions if a.name.startswith("jax.checkpoint round the whole")]
    assert "eqx.filter_grad(eqx.filter_checkpoint(f))" in codes
    assert all(code.startswith("eqx.filter_") for code in codes)


def test_barriers_that_xla_removes_are_said():
    w, x = [shape(64, 64)] * 6, shape(512, 64)
    answer = jaxlens.fits(jax.grad(loss), w, x, device="100 kB")
    assert any("XLA takes jax.checkpoint's barriers out on cpu" in f.text for f in answer.findings)


def test_a_lowered_gradient_is_not_said_to_have_none():
    lowered = jax.jit(jax.grad(loss)).lower([shape(8, 8)] * 2, shape(64, 8))
    texts = [finding.text for finding in jaxlens.fits(lowered, device="1 kB").findings]
    (text,) = [text for text in texts if text.startswith("jax.checkpoint was not tried")]
    assert "no Python function" in text


SHARDED = """
import jax, jax.numpy as jnp, jaxlens
mesh = jax.make_mesh((8,), ("d",))
parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
x = jax.device_put(jnp.ones((1024, 1024)), parts)
step = lambda p, g: p - 0.1 * g
answer = jaxlens.fits(jax.jit(step), x, x, device="1 MB")
donated = jax.jit(step, donate_argnames=("p",))
print(answer.actions[0].takes, jaxlens.memory(donated, x, x).use.reserved)
"""


def test_donating_a_sharded_input_saves_the_part_of_one_device() -> None:
    takes, compiled = run_python(
        SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=8"
    ).split()
    assert int(takes) == int(compiled) == 2 * 4 * 1024 * 1024 // 8
