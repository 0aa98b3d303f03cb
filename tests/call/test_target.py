"""Targets: devices of this process, described devices, and errors for the others."""

import importlib.util
import os
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jaxlens import compat
from jaxlens.call import target as targets
from jaxlens.call.gpu_targets import GPUS
from jaxlens.call.target import names, resolve
from jaxlens.compat import has_cuda_plugin, lowering
from jaxlens.errors import TargetError, UnavailableError
from jaxlens.stages.driver import capture
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

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
        ("gpu:zx", "no description of 'gpu:zx'; there is gpu:a100"),
        ("npu:x", "is a TPU .* or an NVIDIA GPU"),
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
    assert "f32[3]" in capture(lambda: jnp.ones(3), (), target="tpu:v5e:2x2").optimized.text
    other = "from jaxlens.call.target import resolve; print(resolve('tpu:v5e:2x2').name)"
    assert run_python(other) == "tpu:v5e:2x2\n"


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_a_mesh_moves_to_the_chips_of_a_grid_with_as_many():
    devices = np.array(resolve("tpu:v5e:2x2").devices).reshape(2, 2)
    split = NamedSharding(jax.sharding.Mesh(devices, ("d", "m")), PartitionSpec(None, "m"))
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=split)
    taken = capture(lambda x: x @ x.T, (shape,), target="tpu:v5p:2x2x1")
    assert (taken.program.target.kind, taken.program.target.devices) == ("TPU v5", 4)
    assert "all-reduce" in taken.optimized.text
    with pytest.raises(TargetError, match="over 4 devices, and target 'tpu:v5e:4x4' has 16"):
        capture(lambda x: x @ x.T, (shape,), target="tpu:v5e:4x4")


def grid(chips, absent=True):
    """A target with that many chips, each a number."""
    described = targets.Target("tpu", "TPU v5", 1, absent, "", "")
    return targets.ResolvedTarget(described, "tpu:v5p:2x2x1", tuple(range(chips)))


def test_a_sharded_call_takes_a_device_of_the_target_for_each_of_its_own():
    assert grid(4).spread(1) == (0,)
    assert grid(4).spread(4) == (0, 1, 2, 3)
    for count in (2, 8):
        with pytest.raises(TargetError, match=f"over {count} devices, and target .* has 4: name"):
            grid(4).spread(count)
    assert grid(4, absent=False).spread(2) == (0, 1)


# Programs over four devices of a process: shardings of jit, of arrays, and meshes within.
OVER_FOUR = r"""
import re
import jax
jax.config.update("jax_num_cpu_devices", 4)
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from jaxlens.call.target import resolve
from jaxlens.stages.driver import capture
from jaxlens.stages.child.child import RecompileRequest, request_of
from jaxlens.stages.compile.program_text import of_module

shape = jax.ShapeDtypeStruct
x, w = shape((16, 128), "float32"), shape((128, 256), "float32")

def programs(devices):
    mesh = Mesh(np.array(devices).reshape(2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))

    def layer(x, w):
        return jnp.tanh(x @ w).sum(0), x + 1

    def within(x, w):
        return layer(jax.lax.with_sharding_constraint(x, rows), w)

    def mapped(x, w):
        f = jax.shard_map(
            lambda x: jax.lax.psum(x.sum(0), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
        )
        return f(x), x + w[:16, :128]

    placed = shape(x.shape, x.dtype, sharding=rows), shape(w.shape, w.dtype, sharding=columns)
    jitted = jax.jit(layer, in_shardings=(rows, columns), donate_argnums=0)
    return {
        "jit": (jitted, x, w),
        "arrays": (jax.jit(layer, donate_argnums=0), *placed),
        "within": (jax.jit(within, donate_argnums=0), x, w),
        "mapped": (jax.jit(mapped, donate_argnums=0), x, w),
    }

def plain(compiled):
    text = re.sub(r", metadata={[^}]*}", "", compiled.as_text())
    return re.sub(r"(?ms)^(File|Function|Stack)\w+\n.*?\n\n", "", text)

own = programs(resolve(TARGET).devices)
for name, (f, *args) in programs(jax.devices()).items():
    taken = capture(f, args, target=TARGET)
    lowered = taken.driver.lowered
    moved = lowered.compile(compiler_options={})
    g, *there = own[name]
    same = plain(moved) == plain(g.lower(*there).compile())
    chips = {d.platform for s in jax.tree.leaves(moved.input_shardings) for d in s.device_set}
    donated = "input_output_alias" in taken.optimized.text.partition("\n")[0]
    request = request_of(taken, RecompileRequest(), 0)
    again = of_module(request["module"], resolve(request["target"]), request["own"]).lowered
    as_sent = plain(again.compile()).partition("\n")[2] == plain(moved).partition("\n")[2]
    print(name, same, donated, as_sent, taken.program.target.devices, *chips)
assert capture(f, args).optimized.text  # where it runs, as before
with jax.set_mesh(jax.make_mesh((4,), ("x",))):
    print(capture(lambda x: x, (jnp.ones(4),), target=TARGET).program.target.devices)
"""


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_a_program_over_devices_of_the_process_is_that_over_the_chips():
    code = OVER_FOUR.replace("TARGET", "'tpu:v5e:2x2'")
    assert run_python(code, ALLOW_MULTIPLE_LIBTPU_LOAD="1").splitlines() == [
        "jit True True True 4 tpu",
        "arrays True True True 4 tpu",
        "within True True True 4 tpu",
        "mapped True True True 4 tpu",
        "4",
    ]


def test_where_it_would_run_anyway_keeps_its_shardings():
    mesh = jax.make_mesh((1,), ("d",))
    split = NamedSharding(mesh, PartitionSpec("d"))
    x = jax.device_put(X, split)
    f = jax.jit(lambda x: x * 2, out_shardings=split)
    taken = capture(f, (x,), target=jax.default_backend())
    assert "f32[4,8]" in taken.optimized.text


class Lowering:
    def __init__(self, error):
        self.error = error

    def lower(self, lowering_platforms):
        raise self.error


def test_what_needs_a_device_that_is_not_here_is_not_said_of_the_program():
    target = targets.ResolvedTarget(targets.Target("gpu", "NVIDIA H100", 1, True, "", ""))
    for error, words in (
        (RuntimeError("Unknown backend: 'gpu' requested"), "no NVIDIA H100 is: a callback"),
        (RuntimeError("cusolverGetVersion failed"), "no NVIDIA H100 is: cusolverGetVersion failed"),
    ):
        with pytest.raises(TargetError, match=words):
            target.lower(Lowering(error))
    with pytest.raises(NotImplementedError):
        target.lower(Lowering(NotImplementedError("no rule for tpu")))


def test_with_a_jax_that_is_not_known_nothing_is_compiled_for_what_is_here_instead(monkeypatch):
    def gone(name):
        raise ImportError(name)

    monkeypatch.setattr(lowering, "private", gone)
    described = targets.Target("gpu", "NVIDIA H100", 1, True, "", "")
    away = targets.ResolvedTarget(described, "gpu:h100", (SimpleNamespace(client=object()),))
    with pytest.raises(TargetError, match="does not compile for gpu:h100 with jax"):
        away.lower(jax.jit(lambda x: x + 1).trace(X))


def test_pallas_knows_the_absent_device():
    device = SimpleNamespace(platform="gpu", device_kind="NVIDIA H100", core_count=132)
    target = targets.ResolvedTarget(
        targets.Target("gpu", "NVIDIA H100", 1, True, "", ""), "gpu:h100", (device,), ("cuda",)
    )
    with target.device_context():
        known = jax.sharding.get_abstract_mesh().abstract_device
    assert (known.device_kind, known.num_cores, known.platform) == ("NVIDIA H100", 132, "gpu")
    assert jax.sharding.get_abstract_mesh().abstract_device is None


GPU = pytest.mark.skipif(not has_cuda_plugin(), reason="needs jaxlens[gpu]: JAX's CUDA plugin")


@pytest.mark.skipif(has_cuda_plugin(), reason="the CUDA plugin is here")
def test_an_absent_gpu_without_the_plugin_names_the_extra():
    with pytest.raises(TargetError, match=r"pip install 'jaxlens\[gpu\]'"):
        resolve("gpu:h100")


def test_a_plugin_of_another_version_is_not_asked(monkeypatch):
    monkeypatch.setattr(compat, "has_cuda_plugin", lambda: True)
    monkeypatch.setattr(compat, "cuda_plugin_version", lambda: "0.3.1")
    with pytest.raises(TargetError, match=rf"jaxlib's version {jaxlib.__version__}, got 0\.3\.1"):
        resolve("gpu:h100")


@GPU
def test_an_absent_gpu_leaves_the_process_as_it_was():
    before = jax.devices(), jax.default_backend(), dict(os.environ)
    f = jax.jit(lambda x: jax.nn.softmax(x @ x.T))
    value = f(X)
    taken = capture(f, (X,), target="gpu:h100")
    assert [k.kind for k in taken.kernels] == ["kernel"] * len(taken.kernels)
    assert (jax.devices(), jax.default_backend(), dict(os.environ)) == before
    assert f(X).device == value.device == X.device
    with pytest.raises(RuntimeError):
        jax.devices("cuda")


@GPU
@pytest.mark.parametrize("name", list(GPUS))
def test_every_described_gpu(name):
    taken = capture(lambda x: jax.nn.softmax(x @ x.T), (X,), target=f"gpu:{name}")
    target = taken.program.target
    assert (target.platform, target.kind, target.absent) == ("gpu", GPUS[name].name, True)
    major, minor = GPUS[name].capability
    assert f".target sm_{major}{minor}" in taken.asm.text
    assert all(k.asm.count(".entry") == 1 for k in taken.kernels)
    assert all(k.llvm_before and k.llvm_after and k.launch for k in taken.kernels)
    assert len(taken.passes) > 50
    assert taken.memory.arguments == X.nbytes
    with pytest.raises(UnavailableError, match="a device that is not here"):
        _ = taken.cost


@GPU
@pytest.mark.filterwarnings("ignore:Using ``pl.pallas_call``:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
def test_a_pallas_kernel_compiles_for_an_absent_gpu():
    from jax.experimental import pallas

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def f(x):
        return pallas.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    taken = capture(f, (jnp.ones((8, 128)),), target="gpu:h100")
    assert "custom-call" in taken.optimized.text


@GPU
def test_what_is_compiled_for_an_absent_gpu_cannot_run():
    with pytest.raises(UnavailableError, match=r"for NVIDIA H200, which is not here; it cannot"):
        capture(jnp.tanh, (X,), target="gpu:h200").driver.run(1)


@GPU
def test_a_loop_on_an_absent_gpu():
    def f(x):
        return jax.lax.scan(lambda c, row: (jnp.tanh(c + row), c), x[0], x)

    taken = capture(f, (X,), target="gpu:h100")
    nodes = {node.id: node for node in taken.optimized.module.nodes()}
    assert all(k.instruction in nodes for k in taken.kernels)
    kinds = {nodes[k.instruction].opcode: k.kind for k in taken.kernels}
    assert kinds["while"] == "thunk"
    for kernel in taken.kernels:
        assert bool(kernel.asm) == bool(kernel.launch) == (kernel.kind == "kernel")
        assert kernel.asm or kernel.note


SHARDED = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxlens import compat
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
auto = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
within = NamedSharding(auto, P("x"))
inside = capture(lambda x: jax.lax.with_sharding_constraint(x, within), (jnp.ones((8, 4)),))
print(inside.program.target.devices)
half = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
told = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, NamedSharding(half, P("x"))))
x = jnp.ones((8, 4))
moved = compat.lower_for(lambda n: jax.devices()[-n:], lambda: told.trace(x).lower()).compile()
print(sorted(d.id for d in moved(x).sharding.device_set))
"""


def test_arrays_on_several_devices():
    assert run_python(SHARDED).splitlines() == [
        "8 P('x', None) over 8 devices",
        "True",
        "x: f32[8,4] sharded (None, 'y') on mesh x=4, y=2, "
        "was f32[8,4] sharded ('x', None) on mesh x=4, y=2",
        "1",
        "8",
        "8",
        "8",
        "[4, 5, 6, 7]",
    ]
