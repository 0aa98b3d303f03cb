"""Profiles that JAX's profiler wrote without jaxlens; and other files."""

import gzip

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import OptionError, ReadError
from jaxlens.questions.timeline.measure import read_profile
from jaxlens.questions.timeline.measure.read_profile import ProfileEvent, read_lines
from tests.support.paths import RECORDS

pytestmark = pytest.mark.reads_jax

TURNS = 3


@jax.jit
def slow(x):
    y = jax.lax.fori_loop(0, 8, lambda _, y: y @ x, x)
    return y, y.sum()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    x = jnp.eye(700) * 0.5
    jax.block_until_ready(slow(x))
    folder = tmp_path_factory.mktemp("profile")
    with jax.profiler.trace(str(folder)):
        for _ in range(TURNS):
            x, total = slow(x)
            float(total)
    return folder


def test_calls_waits_and_executions_of_a_profile(folder) -> None:
    (file,) = folder.rglob("*.xplane.pb")
    run = jaxlens.timeline(file)
    assert [d.program for d in run.timeline.dispatches] == ["slow"] * TURNS
    assert run.waits == TURNS
    assert len(run.timeline.executions) == TURNS
    assert {w.program for w in run.timeline.waits} == {"slow"}
    for dispatch, execution, wait in zip(
        run.timeline.dispatches, run.timeline.executions, run.timeline.waits, strict=True
    ):
        assert dispatch.start < execution.start < execution.end
        assert abs(wait.end - execution.end) < 0.02
    assert 0 < run.waiting < run.timeline.seconds
    unknown, waits, *_ = [finding.text for finding in run.findings]
    assert unknown.startswith("Unknown: lines, and waits in block_until_ready")
    assert waits == f"Python waits for the device at least {TURNS} times, for slow."


CALLS = """
$threading.py:9 run            0 1000
$train.py:20 main             10  990
$array.py:615 _value          20   40
PjitFunction(step)            50   60
$train.py:9 batch             70  200
PjitFunction(fill)            80   90
$core.py:1280 stage           95  150
PjitFunction(stage)          100  110
$train.py:9 batch            160  170
PjitFunction(fill)           165  166
PjitFunction(iota)           180  190
$<ipython-input-3-5d2>:1 <module> 210 230
PjitFunction(cell)           215  216
PjitFunction(last)           995  996
"""
RAN = {
    "step": "train.py:20 in main",
    "fill": "train.py:9 in batch",
    "stage": "train.py:9 in batch",  # by JAX for the user's function
    "iota": "train.py:9 in batch",
    "cell": "<ipython-input-3-5d2>:1 in <module>",
    "last": "an unknown line",  # none of the user's that began while it was recorded
}


def profiled(monkeypatch, tmp_path, *threads):
    """Returns the answer of a profile with these threads of the host."""
    lines = [("/host:CPU", "python3", events) for events in threads]
    monkeypatch.setattr(read_profile, "lines_of", lambda data: lines)
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(b"")
    return jaxlens.timeline(path)


@pytest.mark.parametrize("name", RAN)
def test_the_functions_of_a_profile(name, monkeypatch, tmp_path) -> None:
    rows = [line.rsplit(maxsplit=2) for line in CALLS.strip().splitlines()]
    events = [ProfileEvent(name, int(start), int(end), {}) for name, start, end in rows]
    inside = [e for e in events if e.name.startswith("Pjit")]
    events += [e._replace(name="Executable::Execute") for e in inside]
    run = profiled(monkeypatch, tmp_path, events)
    lines = {d.line for d in run.timeline.dispatches if d.program == name}
    assert [f"{line.place} {line.text}".strip() for line in lines] == [RAN[name]]
    assert run.findings[0].text.startswith("Unknown: which line of a function ran")


def test_a_folder_is_its_newest_profile(folder) -> None:
    (folder / "none.xplane.pb").symlink_to("nowhere")
    assert jaxlens.timeline(folder).waits == TURNS


def test_a_profile_without_calls_has_what_the_devices_did(folder, monkeypatch, tmp_path) -> None:
    file = next(file for file in folder.rglob("*.xplane.pb") if file.is_file())
    lines = read_profile.lines_of(file.read_bytes())
    without = [events for *_, events in lines if not any("Pjit" in e.name for e in events)]
    run = profiled(monkeypatch, tmp_path, *without)
    assert (run.dispatched, len(run.timeline.executions)) == (0, TURNS)
    (finding,) = run.findings
    assert finding.text.startswith("Unknown: what Python does")
    assert "CPU 0 executes" in run.svg()


@pytest.mark.parametrize(
    ("name", "content", "kind", "words"),
    [
        ("a.txt", b"", OptionError, "got 'a.txt'"),
        ("a.xplane.pb", b"no protobuf", ReadError, "a.xplane.pb cannot be read as a profile"),
        ("a.xplane.pb", b"", ReadError, "no event of a program that JAX ran"),
        ("none.xplane.pb", None, OptionError, "there is no file 'none.xplane.pb'"),
        ("a.trace.json.gz", b"", OptionError, "timeline opens a .xplane.pb"),
        ("", None, OptionError, "no .xplane.pb file in the folder"),
    ],
)
def test_another_file_is_one_line(tmp_path, name, content, kind, words) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(kind) as caught:
        jaxlens.timeline(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gpus_profile_has_the_executions_of_its_loop(tmp_path) -> None:
    """Recorded on an H200 with jax 0.11.2: the kernels are those of a CUDA graph."""
    packed = (RECORDS / "loop.gpu.xplane.pb.gz").read_bytes()
    path = tmp_path / "loop.xplane.pb"
    path.write_bytes(gzip.decompress(packed))
    run = jaxlens.timeline(path)
    timeline = run.timeline
    # The step is so small that it has ended when its value is read.
    assert (run.dispatched, run.waits, len(timeline.executions)) == (3, 0, 3)
    assert {e.device for e in timeline.executions} == {"GPU 0"}
    for dispatch, execution in zip(timeline.dispatches, timeline.executions, strict=True):
        assert (dispatch.program, execution.program) == ("step", "step")
        assert dispatch.start < execution.start < execution.end
    names = {a.name for a in timeline.activities if a.lane == "GPU 0 instructions"}
    assert names
    assert not any(name.startswith("command_buffer") for name in names)


def test_a_read_during_which_a_gpu_executes_waits_for_it() -> None:
    """The events are those of an H100 with jax 0.11.2, in nanoseconds."""
    call = "PjitFunction(train)"
    copy = "np.asarray(jax.Array)"
    host = [
        ProfileEvent(call, 0, 900, {}),
        ProfileEvent("PjRtCApiLoadedExecutable::Execute", 100, 800, {}),
        ProfileEvent("CommonPjRtLoadedExecutable::Execute (jit_train)", 150, 790, {"run_id": 7}),
        ProfileEvent("cuGraphLaunch (CudaGraph:1)", 300, 500, {"correlation_id": 1}),
        ProfileEvent("cuLaunchKernel", 600, 700, {"correlation_id": 2}),
        ProfileEvent(copy, 1000, 4000, {}),
        ProfileEvent(copy, 5000, 5100, {}),
    ]
    graph = {"correlation_id": 1, "hlo_op": "command_buffer_1", "hlo_module": "jit_train"}
    alone = {"correlation_id": 2, "hlo_op": "loop_add_fusion.3", "hlo_module": "jit_train"}
    unknown = {"correlation_id": 3, "hlo_op": "other", "hlo_module": "jit_other"}
    device = [
        ProfileEvent("gemm", 1200, 2000, graph),
        ProfileEvent("loop_add_fusion", 2000, 3000, alone),
        ProfileEvent("other", 6000, 6100, unknown),
    ]
    lines = [("/device:GPU:0", "Stream #14(Compute)", device), ("/host:CPU", "python3", host)]
    known = read_lines(lines, lambda events: events is host)
    (execution,) = known.executions
    assert (execution.device, execution.program) == ("GPU 0", "jit_train")
    assert (execution.start, execution.end) == (1200, 3000)
    assert [(w.start, w.end) for w in known.waits] == [(1000, 3000)]
    copies = [(a.start, a.end) for a in known.activities if a.name == copy]
    assert copies == [(3000, 4000), (5000, 5100)]
    names = {a.name for a in known.activities if a.lane == "GPU 0 instructions"}
    assert names == {"gemm", "loop_add_fusion.3", "other"}
