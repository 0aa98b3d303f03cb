"""Kernels' flops against XLA's cost analysis, and seconds of kernels, on live programs."""

import re

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.stages.measure import measured_limits
from tests.support import programs

pytestmark = pytest.mark.backend


def conv(image, kernel):
    return jax.nn.relu(jax.lax.conv_general_dilated(image, kernel, (2, 2), "SAME"))


OWN = {
    "product": (lambda a, b: jnp.maximum(a @ b, 0), (jnp.ones((32, 48)), jnp.ones((48, 16)))),
    "conv": (conv, (jnp.ones((2, 3, 9, 9)), jnp.ones((4, 3, 3, 3)))),
}


@pytest.mark.parametrize("name", ["mlp_step", "attention", "scan_rnn", *OWN])
def test_flops_of_kernels_sum_to_xlas(name):
    f, args = OWN[name] if name in OWN else programs.SMALL[name]()
    cap = jaxlens.capture(f, *args)
    once = sum(kernel.once for kernel in jaxlens.cost(cap).kernels)
    assert once == pytest.approx(cap.cost["flops"], rel=1e-5)


def test_a_scan_of_known_length_by_hand():
    def f(w, xs):
        return jax.lax.scan(lambda c, x: (jnp.tanh(c @ w) + x, None), xs[0], xs)[0]

    answer = jaxlens.cost(f, jnp.ones((64, 64)), jnp.ones((50, 64)))
    assert answer.flops == 50 * (2 * 64 * 64 + 64)
    assert answer.facts.cost.once == 2 * 64 * 64 + 64
    assert answer.transcendentals == 50 * 64
    (product,) = [kernel for kernel in answer.kernels if kernel.product]
    assert product.runs == 50
    assert product.flops >= 50 * 2 * 64 * 64  # and what was fused with it
    # w and the carry in, the carry out.
    assert product.read >= 4 * (64 * 64 + 64)
    assert "test_roofline_real.py" in answer.findings[0].text
    assert "loops counted by their trips" in answer.findings[0].text


def test_a_while_loop_of_unknown_trips_says_so():
    def f(x):
        return jax.lax.while_loop(lambda x: x.sum() < 1e6, lambda x: x @ x, x)

    answer = jaxlens.cost(f, jnp.ones((16, 16)))
    of = f"with one pass of the loop at test_roofline_real.py:{f.__code__.co_firstlineno + 1}"
    assert of in answer.findings[0].text
    assert of in answer.findings[1].text
    assert (answer.flops, jaxlens.receipt(f, jnp.ones((16, 16))).figures()["moved"]) == (None, None)
    assert all(kernel.open for kernel in answer.kernels if kernel.product)


@pytest.fixture
def quick(monkeypatch):
    """Short measurements: these tests do not depend on their precision."""
    monkeypatch.setattr(measured_limits, "_SIDES", {"cpu": (128, 256)})
    monkeypatch.setattr(measured_limits, "_BYTES", {"cpu": 2**22})
    monkeypatch.setattr(measured_limits, "_SECONDS", 0.02)
    for measure in (measured_limits._product, measured_limits._copy):
        measure.cache_clear()
    yield
    for measure in (measured_limits._product, measured_limits._copy):
        measure.cache_clear()


@pytest.mark.usefixtures("quick")
def test_kernels_are_timed_and_donated_inputs_stay_alive():
    def step(w, x):
        return jax.lax.fori_loop(0, 20, lambda _, w: w - 0.01 * jnp.tanh(w @ x), w), x.sum()

    w, x = jnp.ones((128, 128)), jnp.ones((128, 128))
    cap = jaxlens.capture(jax.jit(step, donate_argnums=0), w, x)
    answer = jaxlens.cost(cap, run=3, roofline="here")
    assert float(w.sum()) == 128 * 128  # not consumed
    (product,) = [kernel for kernel in answer.kernels if kernel.product]
    assert answer.seconds[product.instruction] > 0
    measured = {point.kernel.instruction: point.measured for point in answer.points}
    assert measured[product.instruction] == answer.seconds[product.instruction]
    assert answer.limits.measured
    assert answer.limits.bandwidth > 1e8
    assert answer.limits.products["f32"] > 1e8
    titles = [table.title for table in answer.tables]
    assert titles[-2:] == ["Measured by line", "Measured by kernel"]
    text = str(answer)  # times were asked for
    assert "left out" not in text
    (row,) = [
        line
        for line in text.partition("Measured by kernel")[2].splitlines()
        if line.split()[:1] == [product.instruction]
    ]
    assert re.search(r"\d (ns|µs|ms|s)\b", row)
    assert jaxlens.compile(cap, cost=True, run=2).text(times=True).count("Measured by kernel") == 1


def test_what_a_saved_capture_cannot_do_it_says(tmp_path):
    cap = jaxlens.capture(jnp.sin, jnp.ones(4))
    cap.save(tmp_path / "sin.jaxlens")
    with pytest.raises(UnavailableError, match="holds no program that could run"):
        str(jaxlens.cost(jaxlens.load(tmp_path / "sin.jaxlens"), run=1))
