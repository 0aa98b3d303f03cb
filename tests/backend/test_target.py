"""Where a program is to run: what is here, what is described, and what to do about the rest."""

import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from jaxlens.errors import TargetError
from jaxlens.stages.driver import capture
from jaxlens.stages.target import names, resolve

pytestmark = pytest.mark.backend

X = jnp.ones((4, 8))


def test_the_default_is_where_jax_would_run_it():
    target = capture(lambda x: x, (X,)).program.target
    device = jax.devices()[0]
    assert (target.kind, target.devices, target.absent) == (device.device_kind, 1, False)
    assert target.jax == jax.__version__
    assert names()[0] == target.platform


def test_a_platform_by_name():
    taken = capture(jax.jit(lambda x, n: x * n, static_argnums=1), (X, 3), target="cpu")
    assert taken.program.target.platform == "cpu"
    assert "f32[4,8]" in taken.optimized.text
    weak = capture(lambda x, s: x * s, (X, 2.0), target="CPU")
    assert weak.jaxpr.text == capture(lambda x, s: x * s, (X, 2.0)).jaxpr.text


def test_arrays_and_shapes_need_no_data():
    shape = jax.ShapeDtypeStruct((2**20, 2**20), jnp.float32)
    assert capture(lambda x: x + 1, (shape,), target="cpu").optimized.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("npu", "no target 'npu' here; this process has"),
        ("gpu:h100", "must be a TPU"),
        ("npu:x", "must be a TPU"),
    ],
)
def test_what_is_not_here(name, words):
    with pytest.raises(TargetError, match=words):
        capture(lambda x: x, (X,), target=name)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="libtpu is here")
def test_an_absent_tpu_without_libtpu_names_the_extra():
    with pytest.raises(TargetError, match=r"pip install 'jaxlens\[tpu\]'"):
        resolve("tpu:v5e:2x2")


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_an_absent_tpu():
    taken = capture(lambda x: jax.nn.relu(x @ x.T), (X,), target="tpu:v5e:2x2")
    assert taken.program.target.absent
    assert taken.program.target.platform == "tpu"
    assert "TPU" in taken.program.target.kind
    assert "ROOT" in taken.optimized.text
    with pytest.raises(TargetError, match="knows no topology"):
        resolve("tpu:v99:2x2")
    with pytest.raises(TargetError, match="without array inputs"):
        _ = capture(lambda: jnp.ones(3), (), target="tpu:v5e:2x2").jaxpr


SHARDED = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxlens.stages.driver import capture

mesh = jax.make_mesh((4, 2), ("x", "y"))
rows = NamedSharding(mesh, P("x", None))
x = jax.device_put(jnp.ones((8, 4)), rows)
f = jax.jit(lambda x: (x * 2).sum(0))
taken = capture(f, (x,))
print(taken.program.target.devices, taken.program.inputs[0].sharding)
assert taken.optimized.text
f(x)
print(capture(f, (x,)).verdict.hit)
columns = jax.device_put(x, NamedSharding(mesh, P(None, "y")))
print(*capture(f, (columns,)).verdict.reasons)
third = jax.device_put(jnp.ones(3), jax.devices()[3])
print(capture(f, (third,)).program.target.devices)
told = jax.jit(lambda x: x, in_shardings=rows)
print(capture(told, (jnp.ones((8, 4)),)).program.target.devices)
shape = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=rows)
print(capture(f, (shape,)).program.target.devices)
"""


def test_arrays_on_several_devices():
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == [
        "8 P('x', None) over 8 devices",
        "True",
        "x: f32[8,4] sharded (None, 'y'), was f32[8,4] sharded ('x', None)",
        "1",
        "8",
        "8",
    ], done.stderr
