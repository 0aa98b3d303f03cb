"""What a recording writes of a process's compiles, and that it never harms the process."""

import dataclasses
import errno
import gc
import os
import tempfile
import threading
import time
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.jobs.record import compiled_program
from tests.support.jax_events import Compiles, stop_watches
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


@pytest.fixture(autouse=True)
def _first_calls():
    stop_watches()


def ones(*shape):
    return np.ones(shape, np.float32)


def new_step(scale=2.0, **options):
    """A jitted function that no other test compiles."""

    def step(params, x):
        return jax.tree.map(lambda p: p * scale, params), jnp.tanh(x @ params["w"]).sum()

    return jax.jit(step, **options)


def test_each_compile_with_its_reason_times_sizes_and_program(tmp_path):
    step = new_step()
    with Compiles() as compiles, jaxlens.record(tmp_path / "a"):
        for n in (8, 8, 3):
            step({"w": ones(4, 5)}, ones(n, 4))
    assert len(compiles.names) == 2  # none of them by the recording
    runs = jaxlens.runs(tmp_path / "a")
    assert [run.function for run in runs] == ["step", "step"]
    assert [run.reason for run in runs] == ["never called before", "x: f32[3,4], was f32[8,4]"]
    first = runs[0]
    assert first.seconds > 0
    assert first.compile.call.line.file.endswith("test_job_recording.py")
    arguments, results = 4 * (4 * 5 + 8 * 4), 4 * (4 * 5 + 1)
    assert first.compile.memory.arguments == arguments
    assert first.bytes >= arguments + results
    assert first.capture.cost["flops"] > 2 * 8 * 4 * 5
    assert runs[0].compile.program != runs[1].compile.program


def test_a_capture_has_what_jax_compiled(tmp_path):
    step = new_step(donate_argnums=0)
    with jaxlens.record(tmp_path):
        step({"w": jnp.ones((4, 5))}, ones(8, 4))
    compiled = step.lower({"w": jnp.ones((4, 5))}, ones(8, 4)).compile()
    cap = jaxlens.runs(tmp_path)[0].capture
    bare = [
        line.split(", metadata")[0] for line in cap.optimized.text.splitlines() if "ROOT" in line
    ]
    true = [
        line.split(", metadata")[0] for line in compiled.as_text().splitlines() if "ROOT" in line
    ]
    assert bare == true
    assert [(i.name, str(i.type), i.donated) for i in cap.program.inputs] == [
        ("params['w']", "f32[4,5]", True),
        ("x", "f32[8,4]", False),
    ]
    assert cap.stablehlo.text.startswith("module @jit_step")
    assert "loc(" not in cap.stablehlo.text
    assert {node.opcode for node in cap.jaxpr.module.nodes()} >= {"dot_general", "tanh", "mul"}
    assert cap.hlo.module.nodes()
    assert jaxlens.cost(cap).flops > 0
    assert len(cap.kernels) > 0
    assert cap.links.coverage().instructions > 0.8
    live = jaxlens.capture(step, {"w": jnp.ones((4, 5))}, ones(8, 4))
    assert cap.memory.arguments == live.memory.arguments


@pytest.mark.models
def test_inputs_have_the_user_s_names_where_a_library_hands_them_over():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    with tempfile.TemporaryDirectory() as folder:
        with jaxlens.record(folder):
            eqx.filter_jit(lambda model, x: model(x))(model, jnp.ones(3))
        run = next(run for run in jaxlens.runs(folder) if run.compile.call.parts)
        named = {leaf.name: leaf.path for leaf in run.capture.program.inputs}
        assert {"model.weight", "model.bias", "x"} <= named.keys()
        assert named["model.weight"] != "model.weight"
        assert "model.weight" in str(jaxlens.compile(run.capture))


def test_large_constants_are_left_out_and_the_program_still_opens(tmp_path):
    table = ones(1000, 30) * np.arange(30, dtype=np.float32)
    f = jax.jit(lambda x: (x * table).sum())
    with jaxlens.record(tmp_path):
        f(ones(1000, 30))
    (file,) = tmp_path.glob("process-*/programs.bin")
    source = Path(__file__).stat().st_size
    assert file.stat().st_size < source + 20_000 < table.nbytes
    run = jaxlens.runs(tmp_path)[0]
    assert [(c.type, bool(c.digest)) for c in run.compile.constants] == [("f32[1000,30]", True)]
    assert "f32[1000,30]" in run.capture.hlo.text


def test_equal_programs_are_one(tmp_path):
    for name in ("a", "a", "b"):
        with jaxlens.record(tmp_path / name):
            jax.clear_caches()
            new_step()({"w": ones(4, 5)}, ones(8, 4))
    assert len(list((tmp_path / "a").glob("process-*"))) == 2
    assert len(jaxlens.runs(tmp_path / "a").job.programs) == 1
    diff = jaxlens.runs(tmp_path / "a").diff(tmp_path / "b")
    assert diff.functions[0].same_programs


def test_a_record_within_a_record_has_the_program_too(tmp_path):
    with jaxlens.record(tmp_path / "outer"), jaxlens.record(tmp_path / "inner"):
        new_step()({"w": ones(4, 5)}, ones(8, 4))
    outer, inner = (jaxlens.runs(tmp_path / name)[0] for name in ("outer", "inner"))
    assert outer.capture.stablehlo.text == inner.capture.stablehlo.text
    assert outer.compile.program == inner.compile.program


def test_the_limits(tmp_path):
    step = new_step()
    with jaxlens.record(tmp_path / "none", megabytes=0):
        step({"w": ones(4, 5)}, ones(8, 4))
    run = jaxlens.runs(tmp_path / "none")[0]
    with pytest.raises(UnavailableError, match="0 MB of programs are in the record, its limit"):
        _ = run.capture
    with pytest.raises(OptionError, match="the limit is 0 or more"):
        jaxlens.record(tmp_path, megabytes=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="a record is a folder"):
        jaxlens.record(tmp_path / "file")


def test_programs_beyond_the_limit_are_said(tmp_path, capsys):
    f = jax.jit(lambda x: x * 5)
    with jaxlens.record(tmp_path / "a", megabytes=1e-6):
        for n in (1, 2, 3):
            f(ones(n))
            time.sleep(0.2)  # the first is written
    text = "a program is left out: 1e-06 MB of programs are in the record, its limit (raise --mega"
    assert text in capsys.readouterr().err
    assert text in " ".join(str(jaxlens.runs(tmp_path / "a")).split())


@dataclasses.dataclass(frozen=True)
class Config:
    name: str = "a" * 100
    layers: tuple[int, ...] = (8,) * 50
    rate: float = 0.1


def test_static_arguments_differ_in_what_their_text_leaves_out(tmp_path):
    f = jax.jit(lambda config, x: x * config.rate, static_argnums=0)
    with jaxlens.record(tmp_path):
        for config in (Config(), Config(rate=0.2), Config(layers=(8,) * 49 + (9,))):
            f(config, ones(3))
    parts = [{p.name: p.text for p in run.compile.call.parts} for run in jaxlens.runs(tmp_path)]
    assert [p["config.rate"] for p in parts] == ["0.1", "0.2", "0.1"]
    layers = [p["config.layers"] for p in parts]
    assert layers[0] == layers[1] != layers[2] == str((8,) * 49 + (9,))


def test_functions_of_pmap(tmp_path):
    def step(x):
        return x * 2 - jax.lax.psum(x, "i")

    with jaxlens.record(tmp_path):
        pstep = jax.pmap(step, axis_name="i")
        pstep(ones(1, 4))
        pstep(ones(1, 5))
    assert [run.function for run in jaxlens.runs(tmp_path)] == ["step", "step"]
    assert jaxlens.runs(tmp_path)[1].reason == "input 0: f32[1,5], was f32[1,4]"


def test_what_reads_programs_is_not_imported_as_a_job_starts(tmp_path):
    code = f"""
import sys, jax, jaxlens
with jaxlens.record({str(tmp_path)!r}):
    names = "jaxlens.jobs.record.compiled_program jaxlens.ir.saved.driver jaxlens.ir.hlo.reader"
    assert not sys.modules.keys() & set(names.split())
    jax.jit(lambda x: x + 1)(1.0)
assert not sys.modules.keys() & set(names.split()[1:])
"""
    run_python(code)
    assert jaxlens.runs(tmp_path)[0].capture.jaxpr.module.nodes()


def test_functions_ahead_of_time_in_threads_and_that_fail(tmp_path):
    unknown = jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((2,), np.float32))
    f, g = jax.jit(lambda x: x * 3), new_step()
    with jaxlens.record(tmp_path):
        f.lower(ones(7)).compile()
        g.lower({"w": ones(4, 5)}, ones(8, 4))  # and no further
        thread = threading.Thread(target=lambda: jax.jit(lambda x: x - 4)(ones(9)), name="mine")
        thread.start()
        thread.join()
        with pytest.raises(jax.errors.JaxRuntimeError):
            jax.jit(lambda x: unknown(x))(ones(2))
    runs = jaxlens.runs(tmp_path)
    *made, failed = sorted(runs, key=lambda run: run.compile.state)
    assert sorted(run.compile.call.thread for run in made) == ["", "mine"]
    assert all(run.capture.jaxpr.module for run in made)
    assert failed.compile.state == "failed"
    assert "1 compile failed: <lambda> (" in str(runs)


def test_functions_and_arguments_are_not_kept_alive(tmp_path):
    class Big:
        pass

    big = Big()
    alive = weakref.ref(big)
    f = jax.jit(lambda x, big: x * 2, static_argnums=1)
    with jaxlens.record(tmp_path) as block:
        f(ones(3), big)
        del big, f
        jax.clear_caches()
        time.sleep(0.1)
        gc.collect()
        kept = alive() is not None
        assert not block._recording._going
    gc.collect()
    assert alive() is None, kept


def test_a_full_disk_does_not_reach_the_job(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jaxlens.ir.saved.file.os.fsync", full)
    monkeypatch.setattr("jaxlens.ir.saved.job_files.ProcessFolder._append", full)
    step = new_step()
    with jaxlens.record(tmp_path):
        for n in (8, 3):
            assert step({"w": ones(4, 5)}, ones(n, 4))[1].shape == ()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"jaxlens: the record {tmp_path} is not complete: OSError: No space left"
    )


@pytest.mark.parametrize("name", ["began", "ended"])
def test_an_error_of_ours_does_not_reach_the_job(tmp_path, monkeypatch, capsys, name):
    def broken(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(f"jaxlens.jobs.record.recording.Recording.{name}", broken)
    with jaxlens.record(tmp_path):
        assert new_step()({"w": ones(4, 5)}, ones(8, 4))[1].shape == ()
    assert "ZeroDivisionError: ours" in capsys.readouterr().err


def test_a_program_that_cannot_be_read_is_recorded_without_it(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("no HLO here")

    monkeypatch.setattr(compiled_program.LoadedExecutable, "as_text", broken)
    with jaxlens.record(tmp_path):
        new_step()({"w": ones(4, 5)}, ones(8, 4))
    assert capsys.readouterr().err == ""
    (run,) = jaxlens.runs(tmp_path)
    assert run.compile.memory is not None
    with pytest.raises(UnavailableError, match="could not be read: RuntimeError: no HLO here"):
        _ = run.capture


def test_a_clock_that_jumps_changes_no_time(tmp_path, monkeypatch):
    true, jumps = time.time, iter(range(10**9))
    step = new_step()
    with jaxlens.record(tmp_path):
        monkeypatch.setattr(time, "time", lambda: true() - 3600 * next(jumps))
        step({"w": ones(4, 5)}, ones(8, 4))
        monkeypatch.undo()
    (run,) = jaxlens.runs(tmp_path)
    assert all(0 <= step.seconds < 60 for step in run.compile.call.steps)
    assert 0 <= run.compile.start < 60


def test_a_process_that_waits_for_others_at_its_exit_ended_with_its_script(tmp_path):
    block = jaxlens.record(tmp_path)
    block.start()
    new_step()({"w": ones(4, 5)}, ones(8, 4))
    block.settle(ValueError())
    ended = time.time()
    time.sleep(0.2)
    block.stop()
    (process,) = (p.process for p in jaxlens.runs(tmp_path).job.processes)
    assert process.error == "ValueError"
    assert process.started + process.seconds <= ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_writes_nothing(tmp_path):
    code = f"""
import os, warnings; warnings.simplefilter("ignore")
import jax, numpy as np, jaxlens
with jaxlens.record({str(tmp_path)!r}):
    jax.jit(lambda x: x + 1)(np.ones(3))
    if not os.fork():
        pass
    else:
        os.wait()
"""
    run_python(code)
    assert len(list(tmp_path.glob("process-*"))) == 1
    assert len(jaxlens.runs(tmp_path)) == 1


def test_the_text_is_stable_and_the_page_whole(tmp_path):
    with jaxlens.record(tmp_path):
        new_step()({"w": ones(4, 5)}, ones(8, 4))
    runs = jaxlens.runs(tmp_path)
    text = str(runs)
    assert "1 compile in 1 process" in text
    assert str(os.getpid()) not in text
    assert "never called before" in runs.html()
    assert repr(runs[0]) == "<compile 1 of step in process 0: never called before>"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (RuntimeError("bad sample"), "RuntimeError"),
        (SystemExit(0), ""),
        (SystemExit(3), "SystemExit"),
    ],
)
def test_the_exception_that_ended_the_record(tmp_path, error, name):
    def job():
        with jaxlens.record(tmp_path / "a"):
            new_step()({"w": ones(2, 2)}, ones(2, 2))
            raise error

    with pytest.raises(type(error)):
        job()
    (process,) = jaxlens.runs(tmp_path / "a").job.processes
    assert (process.process.ended, process.process.error) == (True, name)
    assert process.process.settings["jax"] == jax.__version__
