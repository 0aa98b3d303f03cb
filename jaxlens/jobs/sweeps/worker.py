"""Compiles one program of a sweep and measures it: in a child process, or on any executor.

    python -m jaxlens.jobs.sweeps.worker

A point travels as StableHLO and not as a function, so that nothing of the user's is pickled. Each
figure is that of the verb with its name: of `jaxlens.receipt`, and of the kernels of
`jaxlens.cost`.
"""

from collections.abc import Collection, Mapping
from typing import Any

import jax

from jaxlens.call.target import resolve, target_of
from jaxlens.captures import Capture
from jaxlens.errors import first_line
from jaxlens.ir.facts import Program
from jaxlens.ir.jaxpr.canonical import ADDRESS
from jaxlens.program.figures import Figures
from jaxlens.stages.child.main import serve
from jaxlens.stages.compile.output_driver import OutputDriver
from jaxlens.stages.compile.program_text import of_module
from jaxlens.stages.compile.xla import compile_lowered

_FIGURES = {"peak": "peak", "reserved": "reserved", "bytes": "moved", "kernels": "kernels"}


def measured(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles the program of a request; any error is part of the answer.

    Args:
        request: "module" (StableHLO as bytecode), "name", "platform", "target" (an absent device),
            "own" (compiler options of the user's jit), "flags" (those of the point), "x64"
            and "measure" (names of figures).

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
    return measure(Capture(program, OutputDriver(done)), request["measure"])


def measure(capture: Capture, names: Collection[str]) -> dict[str, Any]:
    """Returns the figures of a program that need a compile; one that fails leaves those before it.

    Args:
        capture: The program.
        names: Names of the figures.

    Returns:
        As `measured`.
    """
    figures, known = Figures(capture), dict[str, Any]()
    try:
        if "compile" in names:
            _ = capture.memory  # compiled now
            known["compile"] = next((t.seconds for t in capture.times if t.step == "compile"), None)
        known |= {name: figures.get(of) for name, of in _FIGURES.items() if name in names}
    except Exception as why:
        return {"figures": known, "error": one_line(why)}
    return {"figures": known, "error": ""}


def one_line(error: Exception) -> str:
    """Returns an exception as one line: its type and the first line of its message."""
    return ADDRESS.sub("", f"{type(error).__name__}: {first_line(error, 200)}")


if __name__ == "__main__":
    serve(measured)
