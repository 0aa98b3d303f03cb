"""What holds on a real GPU, against what the device itself measures.

Skipped without one. On a machine with one, from the root of the repository:

    XLA_PYTHON_CLIENT_MEM_FRACTION=.8 python -m pytest tests/gpu -W default
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import TargetError
from tests.support import programs

DEVICE = jax.devices()[0]
pytestmark = [
    pytest.mark.backend,
    pytest.mark.skipif(DEVICE.platform != "gpu", reason="no GPU here"),
]


def step(weights, x, y):
    def loss(weights):
        h = x
        for w in weights:
            h = jnp.tanh(h @ w)
        return jnp.mean((h - y) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value


def normal(*shape, seed=0, dtype="float32"):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def layers(width, batch, depth):
    weights = [normal(width, width, seed=n) / width**0.5 for n in range(depth)]
    return weights, normal(batch, width, seed=8), normal(batch, width, seed=9)


@pytest.fixture(scope="module")
def wide():
    """A step whose products are library calls, with its arguments."""
    args = layers(2048, 8192, 4)
    return jaxlens.capture(jax.jit(step), *args), args


@pytest.mark.parametrize("name", ["mlp_step", "attention", "scan_rnn", "while_cond"])
def test_every_question_about_a_compiled_program_has_an_answer(name) -> None:
    f, args = getattr(programs, name)()
    cap = jaxlens.capture(f, *args)
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore):
        view = verb(cap)
        assert DEVICE.device_kind in view.text(full=True)
        assert "Traceback" not in view.html()
    for verb in (jaxlens.cost, jaxlens.memory, jaxlens.fusion, jaxlens.times, jaxlens.captured):
        assert verb(cap).findings
    assert cap.asm.text.count(".entry") >= 1
    assert cap.llvm.text


def test_flops_of_library_calls_are_those_of_the_equations(wide) -> None:
    answer = jaxlens.cost(wide[0])
    assert any(kernel.opcode == "custom-call" for kernel in answer.kernels)
    assert sum(k.flops for k in answer.kernels) == pytest.approx(answer.flops, rel=0.02)


def test_flops_of_convolutions_and_their_gradients_are_those_of_the_equations() -> None:
    def loss(kernel, image):
        out = jax.lax.conv_general_dilated(image, kernel, (2, 2), "SAME")
        return (out * out).sum()

    args = normal(64, 32, 3, 3), normal(32, 32, 64, 64)
    answer = jaxlens.cost(jax.value_and_grad(loss, argnums=(0, 1)), *args)
    counted = {k.name: (k.flops, k.unknown) for k in answer.kernels if k.product}
    assert sum(flops for flops, _ in counted.values()) == pytest.approx(answer.flops, rel=0.05)


def test_measured_kernels_are_no_faster_than_the_roofline(wide) -> None:
    answer = jaxlens.cost(wide[0], run=20, roofline="here")
    points = {p.kernel.instruction: p for p in answer.points}
    measured = {name: p for name, p in points.items() if p.measured}
    missing = {n for n, p in points.items() if p.measured is None and p.kernel.opcode != "copy"}
    assert not missing
    whole = sum(p.measured for p in measured.values())
    assert whole <= 1.2 * float(np.median(answer.run.seconds))
    large = [p for p in measured.values() if (p.kernel.bytes or 0) > 2e8 or p.kernel.flops > 1e10]
    assert large
    for point in large:
        assert 0.8 < point.measured / point.seconds < 20, point
    products = [p for p in large if p.kernel.product]
    assert all(p.bound == "compute" for p in products)
    assert 0.2 < answer.mfu < 1.05


def test_memory_is_what_the_allocator_reserves() -> None:
    f, args = jax.jit(step), layers(2048, 65536, 6)
    answer = jaxlens.memory(f, *args)
    jax.block_until_ready(f(*args))  # XLA's autotuning has allocated before
    before = DEVICE.memory_stats()
    del f
    sizes = sum(leaf.nbytes for leaf in jax.tree.leaves(args))
    peak = before["peak_bytes_in_use"]
    others = before["bytes_in_use"] - sizes
    assert answer.peak <= answer.reserved
    assert peak - others == pytest.approx(answer.reserved, rel=0.1)


def test_here_it_is_compared_with_the_same_device_that_is_not_here(wide) -> None:
    name = next((n for n in ("h100", "h200", "a100") if n.upper() in DEVICE.device_kind), None)
    if name is None:
        pytest.skip("no description of this device")
    try:
        there = jaxlens.capture(step, *wide[1], target=f"gpu:{name}")
    except TargetError as why:
        pytest.skip(str(why))
    assert jaxlens.cost(there).flops == jaxlens.cost(wide[0]).flops
    assert jaxlens.compare(there, wide[0]).causes[0].kind == "device"
    assert jaxlens.fusion(there).findings


def test_fusions_have_xlas_reasons(wide) -> None:
    assert "fusion_steps" in wide[0].fusion_log
    assert not jaxlens.fusion(wide[0]).why_not


def test_without_fusion_it_is_more_kernels(wide) -> None:
    plain = jaxlens.without(wide[0], "fusion")
    assert len(plain.kernels) > len(wide[0].kernels)


def test_a_loop_that_waits_is_seen_on_the_device(wide) -> None:
    f, args = jax.jit(step), wide[1]
    jax.block_until_ready(f(*args))

    def train(weights, x, y):
        for _ in range(5):
            weights, value = f(weights, x, y)
            last = float(value)
        return last

    run = jaxlens.timeline(train, *args)
    assert (run.dispatched, run.waits, len(run.timeline.executions)) == (5, 5, 5)
    assert {w.program for w in run.timeline.waits} == {"step"}
    assert all(e.device == "GPU 0" for e in run.timeline.executions)
    assert "idle" in run.text(times=True)


@pytest.mark.parametrize("stage", ["stablehlo", "hlo", "optimized"])
def test_a_program_that_is_not_changed_gives_the_same(stage) -> None:
    args = layers(256, 256, 2)
    cap = jaxlens.capture(step, *args)
    assert "equal bit for bit" in str(jaxlens.edit(cap, stage, jaxlens.edit(cap, stage), run=2))


def test_a_nan_is_found_and_values_are_numpys() -> None:
    def bad(x):
        def body(c, t):
            return c * 0.5 + jnp.sqrt(t - 5.0), c.sum()

        return jax.lax.scan(body, x, jnp.arange(10.0)[::-1])

    answer = jaxlens.first_nan(bad, jnp.ones(3))
    assert (answer.opcode, answer.iteration) == ("sqrt", 5)
    x = normal(300, 300)
    (value,) = jaxlens.values(jnp.exp, x).values
    row = value.statistics
    reference = np.exp(np.asarray(x, np.float64))
    assert row.most == pytest.approx(reference.max(), rel=1e-5)
    assert row.mean == pytest.approx(reference.mean(), rel=1e-4)


def test_a_default_product_loses_digits_that_highest_keeps() -> None:
    x, w = normal(256, 512), normal(512, 256, seed=1)
    answer = jaxlens.numerics(jnp.matmul, x, w)
    (product,) = answer.run.dots.values()
    assert product.highest < product.here / 50


def test_a_pallas_kernel_has_its_flops() -> None:
    from jax.experimental import pallas as pl

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0 + 1.0

    def double(x):
        blocks = pl.BlockSpec((64, 128), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = pl.pallas_call(kernel, shape, grid=(16,), in_specs=[blocks], out_specs=blocks)
        return call(x)

    x = normal(1024, 128)
    answer = jaxlens.cost(jaxlens.capture(double, x), run=3)
    (only,) = answer.kernels
    assert only.flops == answer.flops == 2 * 1024 * 128
    assert answer.seconds[only.instruction] > 0


def test_a_program_too_large_is_explained(capsys) -> None:
    import IPython

    shell = IPython.core.interactiveshell.InteractiveShell.instance()
    shell.run_cell("%load_ext jaxlens\nimport jax, jax.numpy as jnp")
    cell = "def huge(y):\n    a = jnp.ones((300_000, 300_000))\n    return (a @ a.T) + y\n"
    assert not shell.run_cell(f"{cell}\njax.jit(huge)(1.0)").success
    text = capsys.readouterr().out
    assert "GB" in text.partition("XLA could not get ")[2][:20]
    assert "huge" in text.partition("XLA could not get ")[2]


def test_a_sweep_compiles_in_processes_beside_this_one(tmp_path: Path) -> None:
    xs = [normal(n, 512) for n in (128, 256)]
    weights = layers(512, 8, 2)[0]

    def forward(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x.sum()

    sweep = jaxlens.sweep(forward, weights, xs[0], over={"x": xs}, measure=("peak", "run"))
    assert [row.error for row in sweep.rows] == ["", ""]
