"""Sweeps over shapes, flags and targets, compared with hand counts and with XLA."""

import dataclasses
import functools
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError, PackageError
from jaxlens.jobs.sweeps import children, journal
from jaxlens.jobs.sweeps import sweep as sweeping
from jaxlens.jobs.sweeps.grid import axes
from jaxlens.jobs.sweeps.worker import measured
from tests.support.documents import approved
from tests.support.paths import environment, run_python

pytestmark = pytest.mark.backend


def shape(*sizes, dtype="float32"):
    return jax.ShapeDtypeStruct(sizes, dtype)


def increment(x):
    return x + 1


def loss(w, x):
    for part in w:
        x = jnp.tanh(x @ part)
    return (x * x).sum()


W = [shape(64, 64)] * 4
XS = [shape(n) for n in (256, 1024, 4096)]


@pytest.fixture(autouse=True)
def _main(monkeypatch):
    """`multiprocessing` reads it; the shell of other tests, which is `__main__`, has none."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)


@pytest.fixture(scope="module")
def here():
    """One thread of this process: no child has to import JAX."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def texts(answer):
    return [finding.text for finding in answer.findings]


def test_figures_are_those_by_hand(here):
    answer = jaxlens.sweep(increment, over={"x": XS}, executor=here)
    for row, n in zip(answer.rows, (256, 1024, 4096), strict=True):
        assert row.point == {"x": f"f32[{n}]"}
        figures = row.figures
        # An argument and a result of 4 bytes for each number, read and written once; one sum each.
        assert (figures.peak, figures.reserved, figures.flops, figures.bytes) == (
            8 * n,
            8 * n,
            n,
            8 * n,
        )
        assert figures.kernels == 1
        assert figures.compile > 0
    assert "Seconds: left out" in str(answer)
    assert texts(answer) == [
        "From x.shape[0] = 256 to 4,096 (16 times), "
        "memory needed goes from 2.05 kB to 32.8 kB (16 times)."
    ]


def test_points_are_those_of_the_verbs_and_of_jax(here):
    xs = [shape(n, 64) for n in (8, 32)]
    answer = jaxlens.sweep(jax.grad(loss), W, over={"x": xs}, executor=here)
    for row, x in zip(answer.rows, xs, strict=True):
        sizes = jax.jit(jax.grad(loss)).lower(W, x).compile().memory_analysis()
        whole = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
        receipt = jaxlens.receipt(jax.grad(loss), W, x)
        assert row.figures.reserved == receipt.reserved == whole
        assert row.figures.peak == receipt.peak
        assert row.figures.flops == receipt.flops
        assert row.figures.kernels == receipt.kernels


def test_a_grid_is_the_product_and_has_a_row_for_each_point(here):
    flags = [None, {"xla_disable_hlo_passes": "fusion,dot-library-rewriter"}]
    labels = ("none", "xla_disable_hlo_passes=fusion,dot-library-rewriter")
    answer = jaxlens.sweep(
        loss, W, over={"x": [shape(8, 64), shape(16, 64)], "flags": flags}, executor=here
    )
    places = [(row.point["x"], row.point["flags"]) for row in answer.rows]
    assert places == [(x, f) for x in ("f32[8,64]", "f32[16,64]") for f in labels]
    kernels = [row.figures.kernels for row in answer.rows]
    assert kernels[0] < kernels[1]  # nothing is fused


def test_a_point_that_fails_is_a_row_with_one_line(here):
    xs = [shape(8, 64), shape(8, 3)]
    over = {"x": xs, "flags": [{}, {"xla_no_such": 1}]}
    answer = jaxlens.sweep(loss, W, over=over, executor=here)
    fine, flag, mismatch, _ = answer.rows
    assert fine.error == ""
    assert fine.figures.peak > 0
    assert "xla_no_such" in flag.error
    assert mismatch.error.startswith("TypeError: dot_general requires contracting dimensions")
    assert all("\n" not in row.error for row in answer.rows)
    assert answer.failed == answer.rows[1:]
    assert texts(answer)[-1].startswith("3 points of 4 failed: x=f32[8,64], flags=xla_no_such=1: ")
    assert texts(answer)[-1].endswith("; and 2 more.")


def test_points_that_fail_stand_in_their_place(here):
    sizes = [(8, 64), (16, 3), (32, 64), (7,), (64, 64), (16, 64)]
    over = {"x": [shape(*size) for size in sizes]}
    answer = jaxlens.sweep(loss, W[:1], over=over, executor=here, measure=["flops"])
    axis = answer.facts.axes[0]
    assert (axis.numbers, axis.value(1)) == ((), "f32[16,3]")  # of another rank
    assert [row[0].text for row in answer.tables[0].rows] == list(axis.labels)
    assert [row[-1].text for row in answer.tables[0].rows] == ["", "TypeError"] * 2 + [""] * 2
    # The whole error has the room that the axes leave, in a table of its own.
    failed = next(table for table in answer.tables if table.title == "Points that failed")
    assert [row[0] for row in failed.rows] == [row[0] for row in answer.tables[0].rows[1:4:2]]
    assert "  f32[16,3]  TypeError: dot_general requires contracting dimensions" in str(answer)


def test_an_error_has_no_address(here):
    def f(x):
        raise ValueError(f"no {object()}")

    answer = jaxlens.sweep(f, over={"x": XS[:1]}, executor=here)
    assert answer.rows[0].error == "ValueError: no <object object>"


def test_a_policy_varies_by_its_name(here):
    def gradient(w, x, policy):
        saved = getattr(jax.checkpoint_policies, policy)
        return jax.grad(jax.checkpoint(loss, policy=saved))(w, x)

    over = {"policy": ["nothing_saveable", "everything_saveable"]}
    answer = jaxlens.sweep(gradient, W, shape(256, 64), over=over, executor=here)
    nothing, everything = answer.rows
    # The products of all layers but the last are computed again: 2 * 256 * 64 * 64 flops each.
    assert nothing.figures.flops - everything.figures.flops >= 3 * 2 * 256 * 64 * 64


def test_arguments_vary_together_and_by_keyword(here):
    def f(x, *rest, scale, **options):
        return x.sum() + rest[0].sum() * scale + options["y"].sum()

    pairs = [(shape(n), shape(n, dtype="int32")) for n in (4, 8)]
    over = {"x, y": pairs, "scale": [2.0, 3.0]}
    answer = jaxlens.sweep(f, pairs[0][0], shape(1), over=over, executor=here, measure="peak")
    assert not answer.failed
    assert [row.point["x, y"] for row in answer.rows[::2]] == ["f32[4], i32[4]", "f32[8], i32[8]"]
    axis = answer.facts.axes[0]
    assert (axis.numbers, axis.quantity) == ((4, 8), "x.shape[0]")


@functools.partial(jax.jit, static_argnums=(0,), static_argnames=("act",))
def layers(n, x, act="tanh"):
    for _ in range(n):
        x = x + getattr(jnp, act)(x)
    return x


def test_an_argument_that_is_static_by_its_name_stays_a_keyword(here):
    x = shape(8)
    varied = jaxlens.sweep(layers, 1, x, over={"act": ["tanh", "sin"]}, executor=here)
    given = jaxlens.sweep(layers, 1, act="sin", over={"x": [x]}, executor=here)
    first = jaxlens.sweep(layers, x=x, act="sin", over={"n": [1, 2]}, executor=here)
    assert [answer.failed for answer in (varied, given, first)] == [(), (), ()]
    assert [row.figures.flops for row in first.rows] == [8, 16]
    placed = jax.jit(loss, in_shardings=(None, None))  # takes no keywords
    assert not jaxlens.sweep(placed, x=shape(8, 64), over={"w": [W]}, executor=here).failed


def test_any_number_of_arguments_varies_as_tuples(here):
    over = {"xs": [(shape(4),) * n for n in (2, 3)]}
    answer = jaxlens.sweep(lambda *xs: sum(xs), over=over, executor=here)
    assert [row.figures.peak for row in answer.rows] == [3 * 16, 4 * 16]


_MESHES = """
from concurrent.futures import ThreadPoolExecutor
import jax, jaxlens, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
pool = ThreadPoolExecutor(1)
def product(n, x):
    mesh = Mesh(np.array(jax.devices()[:n]), ("d",))
    return jax.lax.with_sharding_constraint(x @ x.T, NamedSharding(mesh, PartitionSpec("d")))
product = jax.jit(product, static_argnums=0)
x = jax.ShapeDtypeStruct((64, 64), "float32")
for row in jaxlens.sweep(product, x=x, over={"n": [1, 2, 4]}, executor=pool).rows:
    memory = product.lower(int(row.point["n"]), x).compile().memory_analysis()
    whole = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    print(row.figures.reserved == whole, row.here or "by the executor")
mesh = Mesh(np.array(jax.devices()), ("d",))
layouts = [NamedSharding(mesh, PartitionSpec(*spec)) for spec in ((), ("d",))]
layouts = [jax.ShapeDtypeStruct((64, 64), "float32", sharding=layout) for layout in layouts]
print(*(row.point["x"] for row in jaxlens.sweep(jax.numpy.sin, over={"x": layouts}).rows))
"""


def test_a_mesh_in_the_function_alone_is_compiled_for_its_devices():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    assert run_python(_MESHES, **flags).splitlines() == [
        "True by the executor",
        "True programs for 2 devices",
        "True programs for 4 devices",
        "f32[64,64] P() over 4 devices f32[64,64] P('d',) over 4 devices",
    ]


@dataclasses.dataclass(frozen=True)
class Config:
    name: str = "a name that is longer than a label of a row in the table of a sweep"
    layers: int = 1
    dtype: type = jnp.float32


@dataclasses.dataclass(frozen=True)
class Widths:
    a: int = 1
    b: int = 2
    c: int = 3
    d: int = 4


def layers_of(dtype):
    return {n: shape(64, dtype=dtype if n < 3 else "float32") for n in range(4)}


VALUES = [
    [Config(layers=n) for n in (1, 2)],
    [Config(dtype=t) for t in (jnp.float32, jnp.bfloat16)],
    [Config(), Config(layers=2, dtype=jnp.int32)],
    [{"f": jnp.tanh, "w": shape(n, n)} for n in (4, 8)],
    [np.int64(1), np.float64(0.5)],
    [layers_of("float32"), layers_of("bfloat16")],
    [{n: shape(size + n) for n in range(6)} for size in (8, 16)],
    [[shape(8)] * 4, [shape(8)] * 6],
    [shape(8), shape(16, dtype="bfloat16")],
    ["a" * 90 + end for end in "xy"],
    [Widths(), Widths(2, 3, 4, 5)],
]


def test_labels_are_what_differs():
    found = [axis for values in VALUES for axis in axes({"x": values})]
    lines = [f"{'; '.join(axis.labels)}: {[float(n) for n in axis.numbers]}" for axis in found]
    approved("labels_of_a_sweep", "\n".join(lines))


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({}, "sweep takes the values to try by the argument's name"),
        ({"x": []}, "has no value to try"),
        ({"x": "f32[8]"}, "expected a list of values for 'x', got str"),
        ({"y": [1]}, "increment has no argument 'y'; choose from x, target"),
        ({"x, y": [1]}, "each of its values is a tuple of 2, got 1"),
        ({"flags": [{}], "target": [None]}, "missing a required argument: 'x'"),
    ],
)
def test_a_wrong_grid_is_one_line(over, says):
    with pytest.raises(OptionError) as error:
        jaxlens.sweep(increment, over=over)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_option_is_one_line():
    for wrong, says in (
        ({"measure": ["peek"]}, "did you mean 'peak'?"),
        ({"executor": 0}, "at least 1 process"),
        ({"executor": "dask"}, "takes a concurrent.futures.Executor"),
        ({"executor": ProcessPoolExecutor(1, multiprocessing.get_context("fork"))}, "get_context"),
        ({"limit": "h1000"}, "no published limits of 'h1000'"),
    ):
        with pytest.raises(OptionError, match=says):
            jaxlens.sweep(increment, over={"x": XS}, **wrong)


def test_a_limit_says_which_points_fit(here):
    answer = jaxlens.sweep(increment, over={"x": XS}, limit=8 * 1024, executor=here)
    assert [row.fits for row in answer.rows] == [True, True, False]
    first, *_ = texts(answer)
    assert first == (
        "2 of 3 points with a known memory fit 8.19 kB: the largest is x=f32[1024] with 8.19 kB; "
        "the smallest that does not is x=f32[4096] with 32.8 kB."
    )
    device = jaxlens.sweep(increment, over={"x": XS}, limit="v5e", executor=here)
    assert all(row.fits for row in device.rows)
    assert texts(device)[0].startswith(
        "3 of 3 points with a known memory fit the 16 GB of TPU v5e: the"
    )
    assert device.findings[1].trust == "estimate"


def test_a_limit_of_another_device_is_an_estimate_that_says_so(here):
    answer = jaxlens.sweep(increment, over={"x": XS}, limit="h100", executor=here)
    first, second, *_ = answer.findings
    assert first.trust == "estimate"
    assert second.text.startswith("Compiled for cpu: XLA would make other programs for H100 SXM")
    assert 'with over={..., "target": ["gpu:h100"]}' in second.text


def test_a_number_that_is_traced_is_no_axis_of_programs(here):
    over = {"s": [1.0, 2.0], "x": XS[:2]}
    answer = jaxlens.sweep(lambda s, x: x * s, over=over, executor=here, measure="flops")
    (first,) = texts(answer)
    assert first.startswith("s is traced, so that its value is in no program: to vary it, make it")
    unrolled = jaxlens.sweep(layers.__wrapped__, x=XS[0], over={"n": [1, 2]}, executor=here)
    assert "TracerIntegerConversionError" in unrolled.rows[0].error
    assert texts(unrolled)[0].startswith("n is traced")


def test_what_cannot_travel_is_compiled_here(here):
    def f(x):
        jax.debug.print("{}", x[0])
        return x + 1

    answer = jaxlens.sweep(f, over={"x": XS[:1], "flags": [None, {"a": 1}]}, executor=here)
    plain, flagged = answer.rows
    assert plain.figures.peak >= 8 * 256
    assert plain.here == "programs that call Python functions"
    assert "flags are not tried on programs that call Python" in flagged.error


def test_64_bit_programs_are_compiled_as_such(here):
    with jax.enable_x64(True):
        answer = jaxlens.sweep(increment, over={"x": [shape(256, dtype="float64")]}, executor=here)
    assert answer.rows[0].figures.peak == 2 * 8 * 256


def test_child_processes_serve_by_default_and_one_that_dies_is_a_row(monkeypatch, tmp_path):
    code = textwrap.dedent("""
        import os, signal
        from jaxlens.jobs.sweeps import worker
        def fatal(request):
            if request["flags"]:
                os.kill(os.getpid(), signal.SIGKILL)
            return worker.measured(request)
        worker.serve(fatal)
    """)
    monkeypatch.setattr(children, "_COMMAND", (sys.executable, "-c", code))
    file = tmp_path / "points.jsonl"
    over = {"flags": [{}, {"die": 1}], "x": XS[:1]}
    answer = jaxlens.sweep(increment, over=over, executor=1, resume=file)
    assert [row.figures.peak for row in answer.rows] == [8 * 256, None]
    dead = answer.rows[1].error
    assert dead == "the process that compiled it ended (signal 9): it said nothing"
    assert not [thread for thread in threading.enumerate() if "jaxlens sweep" in thread.name]
    # What failed is tried again, what did not is in the file.
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as pool:
        again = jaxlens.sweep(increment, over=over, executor=pool, resume=file)
    assert [row.kept for row in again.rows] == [True, False]
    assert "No such compile option" in again.rows[1].error


def test_any_executor_serves_and_a_broken_one_is_rows():
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        answer = jaxlens.sweep(increment, over={"x": XS}, executor=pool, measure=["peak"])
        assert [row.figures.peak for row in answer.rows] == [8 * 256, 8 * 1024, 8 * 4096]
        (process,) = pool._processes.values()
        process.kill()
        process.join()
        broken = jaxlens.sweep(increment, over={"x": XS}, executor=pool, measure=["peak"])
    assert all("BrokenProcessPool" in row.error for row in broken.rows)


@pytest.mark.filterwarnings("default")
def test_dask_serves():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
        client.get_executor() as pool,
    ):
        f = lambda x: increment(x)  # noqa: E731 -- as in a notebook: it cannot be pickled
        answer = jaxlens.sweep(f, over={"x": XS}, executor=pool, measure=["peak", "flops"])
        assert [row.figures.peak for row in answer.rows] == [8 * 256, 8 * 1024, 8 * 4096]
    gc.collect()


def test_an_interrupt_cancels_and_ends_the_children(monkeypatch, tmp_path):
    code = "import time; time.sleep(60)"
    monkeypatch.setattr(children, "_COMMAND", (sys.executable, "-c", code))
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        jaxlens.sweep(increment, over={"x": XS}, executor=2, resume=tmp_path / "a")
    assert time.monotonic() - begun < 30
    assert not [thread for thread in threading.enumerate() if "jaxlens sweep" in thread.name]
    assert not (tmp_path / "a").exists()


_KILLED = """
import sys
from concurrent.futures import ThreadPoolExecutor
import jax, jaxlens
from jaxlens.jobs.sweeps import sweep as sweeping, worker
def increment(x):
    return x + 1
def measured(request):
    print("compiles", flush=True)
    return worker.measured(request)
sweeping.measured = measured
xs = [jax.ShapeDtypeStruct((n,), "float32") for n in range(2, 14)]
with ThreadPoolExecutor(1) as pool:
    jaxlens.sweep(increment, over={"x": xs}, executor=pool, resume=sys.argv[1])
"""


def test_kill_9_loses_no_finished_point(tmp_path, here, monkeypatch):
    file = tmp_path / "points.jsonl"
    command = [sys.executable, "-c", _KILLED, str(file)]
    env = environment(JAX_PLATFORMS="cpu")
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        for _ in range(4):  # the fourth point is being compiled when it is killed
            assert child.stdout.readline() == "compiles\n"
        child.send_signal(signal.SIGKILL)
    finished = sum(line.endswith(b"}") for line in file.read_bytes().split(b"\n")[:-1])
    assert finished >= 3
    compiled = []
    monkeypatch.setattr(sweeping, "measured", lambda sent: compiled.append(1) or measured(sent))
    xs = [shape(n) for n in range(2, 14)]
    ended = jaxlens.sweep(increment, over={"x": xs}, executor=here, resume=file)
    assert [row.figures.peak for row in ended.rows] == [8 * n for n in range(2, 14)]
    assert sum(row.kept for row in ended.rows) == finished
    assert len(compiled) == 12 - finished


def test_a_file_of_something_else_is_left_alone(tmp_path, here):
    other = tmp_path / "notes.txt"
    other.write_text("mine\n")
    with pytest.raises(OptionError, match=r"notes.txt is not a sweep's file"):
        jaxlens.sweep(increment, over={"x": XS}, resume=other, executor=here)
    assert other.read_text() == "mine\n"


def test_an_edited_function_is_measured_again(tmp_path, here):
    file = tmp_path / "points"
    jaxlens.sweep(increment, over={"x": XS[:1]}, resume=file, executor=here)

    def twice(x):  # the same axis and shape, another program
        return x + 2

    answer = jaxlens.sweep(twice, over={"x": XS[:1]}, resume=file, executor=here)
    assert not answer.rows[0].kept
    assert jaxlens.sweep(twice, over={"x": XS[:1]}, resume=file, executor=here).rows[0].kept


def test_a_full_disk_ends_no_sweep(tmp_path, here, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "open", full, raising=False)
    answer = jaxlens.sweep(increment, over={"x": XS[:1]}, resume=tmp_path / "a", executor=here)
    assert answer.rows[0].figures.peak == 8 * 256
    assert texts(answer)[-1] == "Points are not kept in the file: No space left on device."


def test_flops_alone_are_in_the_file_only_after_they_were_measured(tmp_path, here):
    file = tmp_path / "points"
    for kept in (False, True):
        answer = jaxlens.sweep(
            increment, over={"x": XS[:1]}, measure="flops", resume=file, executor=here
        )
        assert (answer.rows[0].kept, answer.rows[0].figures.flops) == (kept, 256)


def test_numbers_that_are_infinite_or_equal_are_labels(here):
    def scaled(x, n):
        return x * n

    f = jax.jit(scaled, static_argnames="n")
    for ns in ([1.0, 2.0, float("inf")], [1, 1, 2]):
        answer = jaxlens.sweep(f, XS[0], over={"n": ns}, measure="peak", executor=here)
        assert answer.axes[0].numbers == ()
        assert texts(answer) == []


def test_flops_of_while_loops_are_known_or_said_to_be_unknown(here):
    def powers(x, n):
        return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]

    over = {"n": [4, 8, 16]}
    f = jax.jit(powers, static_argnames="n")
    known = jaxlens.sweep(f, XS[0], over=over, measure=["flops", "bytes"], executor=here)
    size = XS[0].size  # a product for each number, an addition and a comparison for the counter
    assert [row.figures.flops for row in known.rows] == [n * (size + 1) + n + 1 for n in over["n"]]
    unknown = jaxlens.sweep(powers, XS[0], over=over, measure=["flops", "bytes"], executor=here)
    assert {(row.figures.flops, row.figures.bytes) for row in unknown.rows} == {(None, None)}
    assert "runs an unknown number of times" in unknown.tables[0].note


def test_pandas_is_one_line_where_it_is_missing(here):
    answer = jaxlens.sweep(increment, over={"x": XS[:2]}, executor=here, measure=["peak"])
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(PackageError, match="needs pandas, which is not installed: pip install"):
            answer.pandas()
        return
    frame = answer.pandas()
    assert list(frame["peak"]) == [8 * 256, 8 * 1024]
    assert list(frame["x"]) == [256, 1024]
