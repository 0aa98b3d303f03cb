"""Profiles that JAX's profiler wrote without jaxlens, in each of its formats; and other files."""

import gzip
import json

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import OptionError, ReadError
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


@pytest.fixture(scope="module", params=["*.xplane.pb", "*.trace.json.gz"])
def file(folder, request):
    (found,) = folder.rglob(request.param)
    return found


def test_calls_waits_and_executions_of_a_profile(file) -> None:
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


def test_both_formats_say_the_same(folder) -> None:
    (binary,), (text,) = folder.rglob("*.xplane.pb"), folder.rglob("*.trace.json.gz")
    one, other = jaxlens.timeline(binary).timeline, jaxlens.timeline(text).timeline
    for kind in ("dispatches", "waits", "executions"):
        pairs = zip(getattr(one, kind), getattr(other, kind), strict=True)
        assert all(abs(a.seconds - b.seconds) < 1e-8 for a, b in pairs)


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


@pytest.mark.parametrize("name", RAN)
def test_the_functions_of_a_profile(name, tmp_path) -> None:
    thread = {"pid": 1, "tid": 1}
    rows = [line.rsplit(maxsplit=2) for line in CALLS.strip().splitlines()]
    events = [
        {"ph": "X", "name": name, "ts": int(start), "dur": int(end) - int(start), **thread}
        for name, start, end in rows
    ]
    inside = [e for e in events if e["name"].startswith("Pjit")]
    events += [{**e, "name": "Executable::Execute"} for e in inside]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}))
    run = jaxlens.timeline(path)
    lines = {d.line for d in run.timeline.dispatches if d.program == name}
    assert [f"{line.place} {line.text}".strip() for line in lines] == [RAN[name]]
    assert run.findings[0].text.startswith("Unknown: which line of a function ran")


def test_a_folder_is_its_newest_profile(folder) -> None:
    (folder / "none.xplane.pb").symlink_to("nowhere")
    assert jaxlens.timeline(folder).waits == TURNS


def test_a_wait_of_which_an_end_is_missing_is_not_guessed(folder, tmp_path) -> None:
    (file,) = folder.rglob("*.trace.json.gz")
    held = json.loads(gzip.decompress(file.read_bytes()))
    awaits = [e for e in held["traceEvents"] if e.get("name", "").endswith("Buffer::Await")]
    held["traceEvents"].remove(awaits[0])
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps(held))
    run = jaxlens.timeline(cut)
    assert (run.dispatched, run.waits) == (TURNS, 0)
    assert run.findings[0].text.startswith("Unknown: where Python waits")
    assert "Python waits for nothing" not in str(run)


def test_a_profile_without_calls_has_what_the_devices_did(folder, tmp_path) -> None:
    (file,) = folder.rglob("*.trace.json.gz")
    held = json.loads(gzip.decompress(file.read_bytes()))
    python = {e["tid"] for e in held["traceEvents"] if "Pjit" in e.get("name", "")}
    kept = [e for e in held["traceEvents"] if e.get("tid") not in python]
    path = tmp_path / "devices.json"
    path.write_text(json.dumps(kept))  # the format is also a list alone
    run = jaxlens.timeline(path)
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
        ("a.json", b"{", ReadError, "a.json cannot be read as a profile"),
        ("a.json", b"3", ReadError, "a.json cannot be read as a profile"),
        ("a.json", b'{"traceEvents": []}', ReadError, "no event of a program that JAX ran"),
        ("a.json.gz", b"\x1f\x8bcut", ReadError, "a.json.gz cannot be read as a profile"),
        ("none.json", None, OptionError, "there is no file 'none.json'"),
        ("a.sqlite", b"", OptionError, "timeline opens a .xplane.pb"),
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


def test_json_that_stands_for_much_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("jaxlens.questions.timeline.measure.from_file._MOST_OBJECTS", 10_000)
    (tmp_path / "a.json").write_bytes(b"[" + b"{}," * 100 + b"{}]")
    with pytest.raises(ReadError, match="in memory it would take more than 10,000 bytes"):
        jaxlens.timeline(tmp_path / "a.json")


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
