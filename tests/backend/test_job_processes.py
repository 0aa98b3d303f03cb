"""Records of several processes of one job under `jax.distributed`, on this machine."""

import socket
import subprocess
import sys

import pytest

import jaxlens
from tests.support.paths import environment

pytestmark = pytest.mark.backend

NOT = "It is not the same program on every host: "


def record(folder, count, *what):
    """Runs a job of several processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "tests.backend.two_hosts"]
    processes = [
        subprocess.Popen(
            [*words, str(index), str(count), str(port), str(folder), *what],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    try:
        said = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, said


def test_four_processes_with_one_program(tmp_path):
    record(tmp_path, 4, "nothing")
    runs = jaxlens.runs(tmp_path / "nothing")
    first, *_ = runs.findings
    assert first.text == (
        "It is the same program on every host: 4 processes compiled 2 programs together, "
        "in one order."
    )
    assert [p.process.index for p in runs.job.processes] == [0, 1, 2, 3]
    assert len({p.process.start for p in runs.job.processes} - {""}) == 1
    step = next(run for run in runs if run.function == "step")
    assert step.compile.processes == (0, 1, 2, 3)
    assert len({run.compile.program for run in runs if run.function == "step"}) == 1
    assert "all-reduce" in step.capture.optimized.text
    sharding = jaxlens.sharding(step.capture)
    assert sharding.processes == (0, 0, 1, 1, 2, 2, 3, 3)
    sent = 2 * 7 / 8 * 4  # of one f32 in a ring of eight, whose edges are half inside a process
    assert sharding.between == (4 * sent, 4 * sent)
    assert "send 28 B a run between the 4 processes, in all-reduce" in str(sharding)


DIFFER = {
    "constant": "is `v1:f32[8,8] = mul[] v0 2.0:f32[]` in process 0, `v1:f32[8,8] = mul[] v0 3.0",
    "batch": "x is f32[8,8] sharded",
    "program": "process 1 did not get to the second program that they compile together, step",
}


def test_two_processes_that_differ(tmp_path):
    record(tmp_path, 2, *DIFFER)
    for what, message in DIFFER.items():
        runs = jaxlens.runs(tmp_path / what)
        first, *_ = runs.findings
        assert first.text.startswith(NOT)
        assert message in first.text
        assert runs.mismatch.function == "step"
        assert runs.mismatch.position == 2
