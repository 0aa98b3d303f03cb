"""The child process of `recompile.py` and `first_in_child.py`: reads, compiles and runs programs.

    python -m jaxlens.stages.child.main

reads the path of a folder from each line of stdin, then FOLDER/request, and writes FOLDER/answer,
both pickled. It ends when stdin does, after a minute without a first request, or after minutes
without another.
"""

import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call.target import resolve
from jaxlens.errors import LensError
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.stages.compile.program_text import UnsuitedError, is_scheduled, of_hlo, of_module
from jaxlens.stages.compile.xla import CompileOutput, compile_lowered

Answering = Callable[[dict[str, Any]], dict[str, Any]]

_IDLE = 300.0  # seconds that the process waits for another request
_UNASKED = 60.0  # the same for the first: the cell that it was started for may have failed
_UNKNOWN = re.compile(r"No such compile option: '([^']*)'")


def _caught(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _answer(request)
    except UnsuitedError as why:
        return {"error": str(why)}
    except jax.errors.JaxRuntimeError as why:
        unknown = _UNKNOWN.search(str(why))
        return {"flag": unknown[1]} if unknown else {"error": " ".join(str(why).split())[:300]}


def serve(answer: Answering = _caught) -> None:
    """Answers the requests in the folders that stdin names."""
    for request, reply in requests(sys.stdin):
        reply(answer(request))


def requests(
    folders: TextIO,
) -> Iterator[tuple[dict[str, Any], Callable[[dict[str, Any]], None]]]:
    """Yields each request with the function that answers it, whole or not at all.

    Args:
        folders: A line with the path of a folder for each request.
    """
    wait = _UNASKED
    while True:
        idle = threading.Timer(wait, os._exit, (0,))
        idle.daemon = True
        idle.start()
        line = folders.readline()
        idle.cancel()
        if not line:
            return
        folder = Path(line.rstrip("\n"))
        request = pickle.loads((folder / "request").read_bytes())  # written by the parent
        yield request, partial(_reply, folder)
        wait = _IDLE


def _reply(folder: Path, answer: dict[str, Any]) -> None:
    part = folder / "answer.part"
    part.write_bytes(pickle.dumps(answer))
    part.rename(folder / "answer")  # the parent waits for a whole file


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if "tried" in request:
        with jax.enable_x64(request["x64"]):
            _tried(**request["tried"])
        return {}
    place = resolve(request["target"]) if request["target"] else None
    sent = of_module(request["module"], place, request["own"])
    name = request["name"]
    done = compile_lowered(sent.lowered, name=name, passes=True, flags=request["options"])
    cost: dict[str, float] = {}
    with suppress(LensError):
        cost |= done.cost
    dump = done.dump
    if not dump.optimized:  # as on TPUs
        dump = replace(dump, optimized=done.executable.as_text() or "")
    answer = {"dump": dump, "memory": done.memory, "cost": cost, "times": done.times}
    if "arrays" in request:
        with jax.enable_x64(True):  # 64 bits are these of the parent's
            made = done.executable(*map(jnp.asarray, request["arrays"]))
        answer["outputs"] = [np.asarray(x) for x in made]
    if request["run"]:
        again = of_module(request["module"], options=request["own"])
        plain = compile_lowered(again.lowered, name=name)
        answer["measured"] = _measured(plain, done, sent.arguments, request)
    return answer


def _tried(program: str | bytes, compile: Mapping[str, Any] | None) -> None:
    """Reads and compiles a program as the parent will, to whom any error is left.

    Args:
        program: HLO or StableHLO text, or StableHLO bytecode.
        compile: "options", "platform", and numbers of "devices" and "partitions"; None to read it.
    """
    with suppress(Exception):
        if isinstance(program, str) and program.lstrip().startswith("HloModule"):
            parsed = compat.from_hlo(program)
            if is_scheduled(program):
                if compile is not None:
                    of_hlo(program, compile["options"]).lowered.compile()
                return
            program = compat.to_stablehlo(parsed) or ""
        module = stablehlo.parse(program)
        with suppress(Exception):  # with symbolic sizes
            compat.to_hlo(module)
        if compile is not None:
            code = module.operation.get_asm(enable_debug_info=True).encode()
            devices = jax.devices(compile["platform"])[: compile["devices"]]
            compat.compiled(code, devices, compile["partitions"], dict(compile["options"]))


def _measured(
    plain: CompileOutput,
    other: CompileOutput,
    arguments: Sequence[tuple[str, Any]],
    request: dict[str, Any],
) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Returns the seconds of both programs, run alternately, and how they were measured."""
    inputs, fits = input_arrays(arguments, request["given"])
    seconds: list[list[float]] = [[], []]
    ready: Any = jax.block_until_ready
    for turn in range(request["run"] + 1):
        for times, program in zip(seconds, (plain, other), strict=True):
            placed = ready([jnp.asarray(value) for value in inputs])
            start = time.perf_counter()
            ready(program.executable(*placed))
            if turn:  # the first is a warm-up
                times.append(time.perf_counter() - start)
    origin = "the call's own inputs" if all(fits) else "random inputs"
    if any(fits) and not all(fits):
        origin = "the call's own inputs where they were at hand, else random ones"
    how = (
        f"wall clock of {request['run']:,} runs of each, in turn, on {origin}, in a process of its "
        "own; one run of each before that is not counted"
    )
    return tuple(seconds[0]), tuple(seconds[1]), how


def input_arrays(
    arguments: Sequence[tuple[str, Any]], given: Mapping[str, np.ndarray]
) -> tuple[list[np.ndarray], list[bool]]:
    """Returns an array for each argument, and whether it is the call's own.

    Others are normal floats, and zeros for integers, as one may be an index or a length.

    Args:
        arguments: Names, each with a `jax.ShapeDtypeStruct`.
        given: The call's arrays, by name.
    """
    random = np.random.default_rng(0)
    inputs, own = [], []
    for name, shape in arguments:
        value = given.get(name)
        own.append(value is not None and value.shape == shape.shape)
        if not own[-1]:
            is_float = jnp.issubdtype(shape.dtype, jnp.inexact)
            value = random.standard_normal(shape.shape) if is_float else np.zeros(shape.shape)
        inputs.append(np.asarray(value).astype(shape.dtype))
    return inputs, own


if __name__ == "__main__":
    serve()
