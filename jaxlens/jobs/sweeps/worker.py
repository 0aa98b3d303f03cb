"""Compiles one program of a sweep and measures it: in a child process, or on any executor.

    python -m jaxlens.jobs.sweeps.worker

A point travels as StableHLO and not as a function, so that nothing of the user's is pickled. Each
figure is that of the verb with its name: of `jaxlens.receipt`, and of the kernels of
`jaxlens.cost`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens.call.target import resolve, target_of
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, first_line
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Program
from jaxlens.ir.jaxpr.canonical import ADDRESS
from jaxlens.program.figures import Figures
from jaxlens.stages.child.main import input_arrays, serve
from jaxlens.stages.compile.output_driver import OutputDriver
from jaxlens.stages.compile.program_text import TextProgram, of_module
from jaxlens.stages.compile.xla import compile_lowered
from jaxlens.stages.measure.execute import run


def measured(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles the program of a request; any error is part of the answer.

    Args:
        request: "module" (StableHLO as bytecode), "name", "platform", "target" (an absent device),
            "own" (compiler options of the user's jit), "flags" (those of the point), "x64",
            "measure" (names of figures), "runs" (their number) and "given" (arrays by name).

    Returns:
        "figures" by name, and "error": one line, "" for none.
    """
    try:
        with jax.enable_x64(request["x64"]):
            return _measured(request)
    except Exception as why:  # of XLA, of many types; the point is a row with its error
        return {"figures": {}, "error": one_line(why)}


def _measured(request: Mapping[str, Any]) -> dict[str, Any]:
    name, target = request["name"], request["target"]
    here = target_of(jax.devices()[:1])
    if not target and here.platform != request["platform"]:
        target = request["platform"]
    place = resolve(target) if target else None
    sent = of_module(request["module"], place, request["own"])
    done = compile_lowered(sent.lowered, name=name, flags=request["flags"])
    program = Program(name, (), (), place.target if place else here)
    execute = partial(_executed, sent, done.executable, request)
    return measure(Capture(program, OutputDriver(done)), request["measure"], execute)


def measure(capture: Capture, names: Collection[str], execute: Callable[[], Run]) -> dict[str, Any]:
    """Returns the figures of a program that need a compile; one that fails leaves those before it.

    Args:
        capture: The program.
        names: Names of the figures.
        execute: Runs it.

    Returns:
        As `measured`.
    """
    figures, known = Figures(capture), dict[str, Any]()
    try:
        if "compile" in names:
            _ = capture.memory  # compiled now
            known["compile"] = next((t.seconds for t in capture.times if t.step == "compile"), None)
        if "peak" in names:
            known |= {"peak": figures.get("peak"), "reserved": figures.get("reserved")}
        if "bytes" in names:
            known["bytes"] = figures.get("moved")
        if "kernels" in names:
            known["kernels"] = figures.get("kernels")
        if "run" in names:
            if capture.program.target.absent:
                raise UnavailableError(f"{capture.program.target.kind} is not here to run it")
            known["run"] = median(execute().seconds)
    except Exception as why:
        return {"figures": known, "error": one_line(why)}
    return {"figures": known, "error": ""}


def one_line(error: Exception) -> str:
    """Returns an exception as one line: its type and the first line of its message."""
    return ADDRESS.sub("", f"{type(error).__name__}: {first_line(error, 200)}")


def _executed(sent: TextProgram, executable: Any, request: Mapping[str, Any]) -> Run:
    """Runs the program on the given arrays; on random floats and zeros where there are none."""
    inputs, _ = input_arrays(sent.arguments, request["given"])
    return run(executable, tuple(map(jnp.asarray, inputs)), request["runs"])


if __name__ == "__main__":
    serve(measured)
