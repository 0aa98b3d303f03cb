"""The child process of `recompile.py`: compiles a StableHLO module, and optionally runs it.

    python -m jaxlens.stages.experiments.other_process_main

reads the path of a folder from each line of stdin, then FOLDER/request, and writes FOLDER/answer,
both pickled. It ends when stdin does, or after minutes without a request. It lowers a function
that returns zeros, with the module's arguments and results, and replaces the ops of its module by
the received ones. So JAX itself compiles them, and of JAX's own modules only MLIR's bindings are
used.
"""

import os
import pickle
import re
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.errors import LensError
from jaxlens.stages import compat
from jaxlens.stages.call.target import ResolvedTarget, resolve
from jaxlens.stages.compile.xla import CompileOutput, compile_lowered

_IDLE = 300.0  # seconds that the process waits for another request
_DTYPES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"f8{x}": f"float8_{x.lower()}" for x in ("E4M3FN", "E5M2", "E4M3FNUZ", "E5M2FNUZ")},
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
_TENSOR = re.compile(r"tensor<((?:\d++x)*+)([\w<>]+)>")
_NAME = re.compile(r'loc\("(.*?)"')
_UNKNOWN = re.compile(r"No such compile option: '([^']*)'")


class UnsuitedError(LensError):
    """The module cannot be compiled in a child process."""


def main(folder: Path) -> None:
    """Reads the request in a folder, and writes the answer next to it."""
    request = pickle.loads((folder / "request").read_bytes())  # written by the parent
    try:
        answer = _answer(request)
    except UnsuitedError as why:
        answer = {"error": str(why)}
    except jax.errors.JaxRuntimeError as why:
        unknown = _UNKNOWN.search(str(why))
        answer = {"flag": unknown[1]} if unknown else {"error": " ".join(str(why).split())[:300]}
    part = folder / "answer.part"
    part.write_bytes(pickle.dumps(answer))
    part.rename(folder / "answer")  # the parent waits for a whole file


def serve() -> None:
    """Answers the requests in the folders that stdin names."""
    while True:
        idle = threading.Timer(_IDLE, os._exit, (0,))
        idle.daemon = True
        idle.start()
        line = sys.stdin.readline()
        idle.cancel()
        if not line:
            return
        main(Path(line.rstrip("\n")))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    place = resolve(request["target"]) if request["target"] else None
    lowered, arguments = _lowered(request["module"], request["donated"], place)
    name = request["name"]
    done = compile_lowered(lowered, name=name, passes=True, flags=request["options"])
    cost: dict[str, float] = {}
    with suppress(LensError):
        cost |= done.cost
    dump = done.dump
    if not dump.optimized:  # as on TPUs
        dump = replace(dump, optimized=done.executable.as_text() or "")
    answer = {"dump": dump, "memory": done.memory, "cost": cost, "times": done.times}
    if request["run"]:
        plain = compile_lowered(_lowered(request["module"], request["donated"])[0], name=name)
        answer["measured"] = _measured(plain, done, arguments, request)
    return answer


def _lowered(
    bytecode: bytes, donated: list[str], place: ResolvedTarget | None = None
) -> tuple[Any, list[tuple[str, Any]]]:
    """Returns a lowered function with the received module, and (name, shape) of its arguments."""
    ir = compat.mlir_bindings()
    probe: Any = jax.jit(lambda: jnp.zeros(())).lower().compiler_ir("stablehlo")
    with probe.context:
        sent = ir.Module.parse(bytecode)
    entry = next(op for op in sent.body.operations if "main" in str(op.attributes["sym_name"]))
    block = entry.regions[0].blocks[0]
    # JAX writes the name of an argument into its location.
    names = (_NAME.match(str(value.location)) for value in block.arguments)
    shapes = [_shape(value.type) for value in block.arguments]
    arguments = [
        (name[1] if name else "", shape) for name, shape in zip(names, shapes, strict=True)
    ]
    results = [_shape(t) for t in ir.FunctionType(entry.attributes["function_type"].value).results]
    positions = tuple(n for n, (name, _) in enumerate(arguments) if name in donated)

    def zeros(*_: Any) -> list[Any]:
        return [jnp.zeros(result.shape, result.dtype) for result in results]

    jitted = jax.jit(zeros, keep_unused=True, donate_argnums=positions)
    if place is None:
        lowered = jitted.lower(*shapes)
    else:
        lowered = place.trace(jitted, shapes, {}).lower(lowering_platforms=place.platforms)
    _replace(lowered.compiler_ir("stablehlo"), bytecode)
    return lowered, arguments


def _replace(module: Any, bytecode: bytes) -> None:
    """Replaces the ops and attributes of a module by those of the received one."""
    ir = compat.mlir_bindings()
    with module.context:
        sent = ir.Module.parse(bytecode)
        for op in list(module.body.operations):
            op.erase()
        for op in list(sent.body.operations):
            op.detach_from_parent()
            module.body.append(op)
        for attribute in sent.operation.attributes:
            name = attribute.name if hasattr(attribute, "name") else attribute
            module.operation.attributes[name] = sent.operation.attributes[name]


def _shape(type_: Any) -> Any:
    tensor = _TENSOR.fullmatch(str(type_))
    if tensor is None or tensor[2] not in _DTYPES:
        raise UnsuitedError(f"it takes or gives a {type_}, which is no array of plain numbers")
    struct: Any = jax.ShapeDtypeStruct
    sizes = tuple(int(size) for size in tensor[1].split("x") if size)
    return struct(sizes, jnp.dtype(_DTYPES[tensor[2]]))


def _measured(
    plain: CompileOutput,
    other: CompileOutput,
    arguments: list[tuple[str, Any]],
    request: dict[str, Any],
) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Returns the seconds of both programs, run alternately, and how they were measured."""
    random = np.random.default_rng(0)
    inputs, fits = [], []
    for name, shape in arguments:
        value = request["given"].get(name)
        fits.append(value is not None and value.shape == shape.shape)
        inputs.append(value.astype(shape.dtype) if fits[-1] else _random(shape, random))
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


def _random(shape: Any, random: np.random.Generator) -> np.ndarray:
    """Returns normal floats; integers are zero, as one may be an index or a length."""
    if jnp.issubdtype(shape.dtype, jnp.inexact):
        return np.asarray(random.standard_normal(shape.shape)).astype(shape.dtype)
    return np.zeros(shape.shape, shape.dtype)


if __name__ == "__main__":
    serve()
