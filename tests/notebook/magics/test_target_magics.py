"""Several `--target` in one view, and targets for which a program does not compile."""

import importlib.util

import pytest

SETUP = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
calls = []
def f(x):
    calls.append(1)
    return jnp.tanh(x).sum()
def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2
def kernel(x):
    return pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x) + 1
x = jnp.ones((8, 128))
"""
NO_TPU = "target 'tpu:v5e:2x2' needs libtpu, which is not installed: pip install 'jaxlens[tpu]'"


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed")
def test_a_target_that_is_not_installed_is_a_column_that_says_how(run, shell):
    ran = run("%%compile --target cpu --target tpu:v5e:2x2 --target gpu:z9 -o view\nf(x)").well()
    view = shell.user_ns["view"]
    assert [one.name for one in view.columns] == ["cpu", "tpu:v5e:2x2", "gpu:z9"]
    cpu, tpu, gpu = view.columns
    assert cpu.figures["kernels"] is not None
    assert not tpu.figures
    assert tpu.missing.startswith(NO_TPU)
    assert gpu.missing.startswith("no description of 'gpu:z9'")
    assert "x f32[8,128] side by side for cpu, tpu:v5e:2x2 and gpu:z9" in ran.shown
    assert len(shell.user_ns["calls"]) == 1  # traced, not run


def test_explore_and_a_statement_that_runs(run, shell):
    run("%%explore --target cpu --target gpu:z9 -o view\ny = f(x)").well()
    assert "y" in shell.user_ns
    assert shell.user_ns["view"].document.verb == "explore"
    assert [one.name for one in shell.user_ns["view"].columns] == ["cpu", "gpu:z9"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%%hlo --target cpu --target cpu", "give one --target in %%hlo"),
        ("%%compile --memory --target cpu --target tpu", "in %%compile with --memory"),
        ("%%compile --target tpu --target gpu", "TargetError: no target 'tpu' here"),
    ],
)
def test_what_does_not_go_together_is_one_line(run, shell, line, says):
    assert says in run(f"{line}\nf(x)").refused()
    assert not shell.user_ns["calls"]


def test_a_kernel_that_does_not_compile_for_the_target_is_one_line(run):
    why = "it does not compile for cpu: ValueError: Only interpret mode is supported on CPU backend"
    ran = run("%%compile --target cpu\nkernel(x)")
    assert not ran.ok
    assert ran.out.strip() == f"UnavailableError: {why}"
    beside = run("%%compile --target cpu --target gpu:z9 -o view\nkernel(x)").well()
    assert f"cpu: {why}." in beside.shown.replace("\n  ", " ")
