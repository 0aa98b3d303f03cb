"""Reads profiles of GPUs, as JAX's profiler wrote them."""

import gzip

import pytest

from jaxlens.questions.timeline.events import CodeLine, Dispatch, Execution
from jaxlens.questions.timeline.measure.read_profile import (
    MARK,
    ProfileEvent,
    lines_of,
    linked,
    read_lines,
)
from tests.support.paths import RECORDS

pytestmark = pytest.mark.reads_jax

MARKED = ProfileEvent(MARK, 0, 0, {})


def test_a_gpus_profile_has_the_executions_of_its_loop() -> None:
    """Recorded on an H200 with jax 0.11.2: the kernels are those of a CUDA graph."""
    data = gzip.decompress((RECORDS / "loop.gpu.xplane.pb.gz").read_bytes())
    lines = list(lines_of(data))
    main = max((events for *_, events in lines), key=lambda e: sum("Pjit" in x.name for x in e))
    main.append(MARKED)
    known = read_lines(lines)
    waits, executions = linked(known.dispatches, known.waits, known.executions)
    # The step is so small that it has ended when its value is read.
    assert (len(known.dispatches), len(waits), len(executions)) == (3, 0, 3)
    assert {e.device for e in executions} == {"GPU 0"}
    for dispatch, execution in zip(known.dispatches, executions, strict=True):
        assert (dispatch.program, execution.program) == ("step", "step")
        assert dispatch.start < execution.start < execution.end


def test_a_read_during_which_a_gpu_executes_waits_for_it() -> None:
    """The events are those of an H100 with jax 0.11.2, in nanoseconds."""
    call = "PjitFunction(train)"
    copy = "np.asarray(jax.Array)"
    host = [
        MARKED,
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
    known = read_lines(lines)
    (execution,) = known.executions
    assert (execution.device, execution.program) == ("GPU 0", "jit_train")
    assert (execution.start, execution.end) == (1200, 3000)
    assert [(w.start, w.end) for w in known.waits] == [(1000, 3000)]
    copies = [(a.start, a.end) for a in known.activities if a.name == copy]
    assert copies == [(3000, 4000), (5000, 5100)]


def test_executions_on_each_device_are_of_the_dispatches_in_order() -> None:
    first, second = CodeLine("train.py:3", ""), CodeLine("train.py:5", "")
    dispatches = [Dispatch("step", 10, 1, first), Dispatch("step", 20, 1, second)]
    # The first was dispatched before the recording, the last by another thread.
    of = {5: None, 12: first, 22: second, 40: None}
    ran = [Execution(f"GPU {n}", "jit_step", start, 1) for start in of for n in range(2)]
    _, found = linked(dispatches, [], ran)
    assert [(e.program, e.line) for e in found] == [("step", of[int(e.start)]) for e in ran]
