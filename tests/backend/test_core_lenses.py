"""Every verb and lens works on functions of `jaxlens.core`, without an option."""

from pathlib import Path
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
import jaxlens.core.numpy as cnp
from jaxlens import api, core
from jaxlens.call.core_program import is_core
from jaxlens.errors import OptionError
from tests.ir.check import check
from tests.support.paths import run_python

pytestmark = pytest.mark.backend
W, X = np.ones((4, 3), np.float32), np.ones((2, 4), np.float32)


def loss(w: Any, x: Any) -> Any:
    hidden = cnp.tanh(x @ w)
    return (hidden**2).mean()


def through(w: Any, x: Any) -> Any:
    return 2 * loss(w, x)


def of_jax(w: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ w)
    return (jax.nn.relu(hidden) ** 2).mean()


@pytest.mark.parametrize(
    "f",
    [loss, through, core.jit(loss), core.grad(loss), core.vmap(core.grad(loss), in_axes=(None, 0))],
    ids=["plain", "through another", "jitted", "grad", "vmap"],
)
def test_is_the_core_s(f: Any) -> None:
    assert is_core(f)
    assert not is_core(of_jax)
    assert not is_core(jax.jit(of_jax))
    assert not is_core(np.sin)


def test_jaxpr_is_the_core_s_own() -> None:
    cap = jaxlens.capture(core.grad(loss), W, X)
    assert cap.jaxpr.text == str(core.make_jaxpr(core.grad(loss))(W, X))
    check(cap.jaxpr.module)
    lines = {span.line for node in cap.jaxpr.module.nodes() for span in node.spans[:1]}
    first = loss.__code__.co_firstlineno
    assert lines == {first + 1, first + 2}


@pytest.mark.parametrize("f", [core.value_and_grad(loss), core.jit(core.value_and_grad(loss))])
def test_every_instruction_reaches_a_line(f: Any) -> None:
    cap = jaxlens.capture(f, core.array(W), X)
    coverage = cap.links.coverage()
    assert coverage.instructions == coverage.equations == 1
    backward = [node for node in cap.jaxpr.module.nodes() if "transpose" in node.scope]
    assert backward
    assert all(node.spans for node in backward)


def test_loops_and_calls_are_linked() -> None:
    @core.jit
    def cell(state: Any, x: Any) -> Any:
        return cnp.sin(state) * x, state

    def run(xs: Any) -> Any:
        last, path = core.scan(cell, 1.0, xs)
        return core.cond(last > 0, lambda p: p.sum(), lambda p: p.max(), path)

    coverage = jaxlens.capture(core.grad(run), np.arange(4, dtype=np.float32)).links.coverage()
    assert coverage.equations == 1
    assert coverage.instructions >= 0.95


@pytest.mark.parametrize("verb", [jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore])
def test_every_verb(verb: Any) -> None:
    view = verb(core.grad(loss), core.array(W), X)
    assert "grad(loss)(w, x) with w f32[4,3], x f32[2,4]" in str(view)
    assert "mul" in view.html()


def test_what_xla_is_given_computes_the_same() -> None:
    cap = jaxlens.capture(core.jit(core.grad(loss)), W, X)
    found = cap.driver.executable(W, X)
    np.testing.assert_allclose(found, np.asarray(core.grad(loss)(W, X)), rtol=1e-6)


def test_static_and_donated_arguments_stay_so() -> None:
    power = core.jit(lambda x, n: x**n, static_argnums=1, donate_argnums=0)
    x = core.array(X)
    cap = jaxlens.capture(power, x, 3)
    assert [s.name for s in cap.program.statics] == ["n"]
    assert cap.program.inputs[0].donated
    cap.optimized.text
    assert not x.is_deleted()


def test_looking_neither_traces_nor_compiles_the_users() -> None:
    step = core.jit(loss)
    jaxlens.compile(step, W, X).text()
    assert step.cache_info() == (0, 0, 0)


# ---- --core: a function for jax.numpy, on the core ----------------------------------------------


@pytest.mark.parametrize("f", [of_jax, jax.jit(of_jax)], ids=["plain", "jitted"])
def test_on_core(f: Any) -> None:
    cap = api.take(f, (W, X), {}, core=True, transforms=(("grad", ""),))
    text = cap.jaxpr.text
    assert "dot_general" in text
    assert "symbolic_zeros" not in text  # a parameter that only JAX's custom rules have
    expected = jax.grad(of_jax)(W, X)
    np.testing.assert_allclose(cap.driver.executable(W, X), expected, rtol=1e-6)


def test_on_core_reaches_what_the_function_calls() -> None:
    scale = jax.jit(lambda x, n: x * n, static_argnums=1)

    def outer(x: Any) -> Any:
        return jax.vmap(jax.grad(lambda v: jnp.sum(scale(v, 3) ** 2)))(x)

    cap = api.take(outer, (X,), {}, core=True)
    np.testing.assert_allclose(cap.driver.executable(X), jax.jit(outer)(X), rtol=1e-6)
    assert outer.__globals__["jnp"] is jnp


def test_what_the_core_lacks_is_said() -> None:
    def asked(x: Any) -> Any:
        return jax.experimental.io_callback(np.sin, x, x)

    with pytest.raises(OptionError, match=r"asked\): jaxlens.core has no io_callback"):
        api.take(asked, (X,), {}, core=True).jaxpr.text


def test_jax_s_caches_know_nothing_of_the_core() -> None:
    step = core.jit(lambda x, n: x * n, static_argnums=1)
    verdict = jaxlens.capture(step, X, 3).verdict
    assert verdict.hit is None
    assert verdict.reasons[0].endswith(
        "is jitted by jaxlens.core, whose keys its cache_keys() returns"
    )
    assert step.cache_info() == (0, 0, 0)
    assert jaxlens.capture(loss, W, X).verdict.hit is None


ON_EIGHT = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
import jaxlens, jaxlens.core.numpy as cnp
from jaxlens import core

mesh = core.Mesh(core.devices(), ("i",))
rows = core.PartitionSpec("i")
f = core.shard_map(
    lambda x: cnp.sin(x) + core.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=rows, out_specs=rows
)
x = np.arange(16, dtype=np.float32)
cap = jaxlens.capture(core.jit(f), x)
assert "all_reduce" in cap.stablehlo.text
found = cap.links.coverage()
assert found.instructions == found.equations == 1, found
np.testing.assert_allclose(np.asarray(cap.driver.executable(x)), np.asarray(f(x)), rtol=1e-6)
"""


def test_on_eight_devices() -> None:
    run_python(ON_EIGHT)


def test_loops_of_one_line_are_counted_together() -> None:
    def run(xs: Any) -> Any:
        return core.scan(lambda c, x: (cnp.sin(c) * x, None), 1.0, xs)[0]

    text = jaxlens.compile(core.grad(run), np.arange(7, dtype=np.float32)).text(full=True)
    line = run.__code__.co_firstlineno + 1
    # the loop forwards and the loop backwards
    assert f"(2 loops of 7 trips at {Path(__file__).name}:{line})" in " ".join(text.split())
