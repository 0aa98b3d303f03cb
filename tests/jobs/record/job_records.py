"""Records of jobs that tests make by hand."""

from dataclasses import replace

from jaxlens.ir.compile_log import CallEvent, CompileStep, KeyPart
from jaxlens.ir.facts import Memory
from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile, RecordedProcess

STEPS = (CompileStep("trace", 0.1), CompileStep("lower", 0.2), CompileStep("compile", 0.7))


def compiled(number, function="step", program="f1", x="f32[8,4]", **changes):
    """A compile of a function of one argument."""
    parts = (KeyPart("x", "input", x),)
    call = CallEvent(number, function, "user", None, None, STEPS, "trace", parts=parts)
    call = replace(call, program=program)
    memory = Memory(100, 20, 3, 0)
    compile = RecordedCompile(number, call, float(number), memory=memory, processes=(0, 1))
    return replace(compile, **changes)


def process(index, *compiles, count=2, started=1000.0, **changes):
    """A process of a job."""
    about = RecordedProcess(index, count, "host", 10 + index, started, ended=True, seconds=9.0)
    return ProcessRecord(f"process-{index}-{started}", replace(about, **changes), compiles)


def job(*processes):
    """A job of these processes."""
    return JobRecord("runs/a", processes)
