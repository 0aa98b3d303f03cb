"""Runs a program in pieces with measurements in it, and compiles equal pieces once."""

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.call import isolate
from jaxlens.compat.arrays import content, fresh, is_ref
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.report import count
from jaxlens.stages.compile.interruptible import interruptible
from jaxlens.taps.evaluate import (
    Change,
    Evaluator,
    Probe,
    deepest,
    equations,
    loops_around,
)
from jaxlens.taps.pieces import OpenedJaxpr, ProgramPiece, WrittenOperand, cut, open_calls
from jaxlens.taps.primitives import Path
from jaxlens.taps.refs import makes_ref

_UNKNOWN = re.compile(r"No such compile option: '([^']*)'")
# A piece runs once, and many small kernels are most of its compile. On a CPU XLA's older emitters
# make them in half the time, LLVM vectorises at level 1 too, and each split is one more module to
# compile. On a GPU a third of it is autotuning, which runs each way of computing a product.
_LEAST_WORK: Mapping[str, Mapping[str, bool | int]] = {
    "cpu": {
        "xla_cpu_use_fusion_emitters": False,
        "xla_cpu_parallel_codegen_split_count": 2,
        "xla_backend_optimization_level": 1,
    },
    "gpu": {"xla_gpu_autotune_level": 0},
}


@dataclass(frozen=True, slots=True)
class CompiledPieces:
    """Calls functions compiled, each compiled once for its key and the places of its operands.

    Attributes:
        executables: What is compiled.
        tokens: The numbers of equations by what they compute, of which keys are made.
        plans: The pieces of programs.
        context: Of all runs; in another one, JAX's first call of an executable is slow.
    """

    executables: dict[Any, Any] = field(default_factory=dict, repr=False)
    tokens: dict[Hashable, int] = field(default_factory=dict, repr=False)
    plans: dict[Hashable, "_Plan"] = field(default_factory=dict, repr=False)
    context: Any = field(default_factory=isolate.context, repr=False)

    def __call__(self, key: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        placed = jax.Array | jax.Ref
        places = tuple(x.sharding if isinstance(x, placed) else None for x in operands)
        if (key, places) not in self.executables:
            lowered = jax.jit(function).trace(*operands).lower()
            devices: set[Any] = {d for place in places if place for d in place.device_set}
            platforms = {device.platform for device in devices} or {jax.default_backend()}
            self.executables[key, places] = interruptible(lambda _: _compile(lowered, platforms))
        return self.executables[key, places](*operands)


def _compile(lowered: Any, platforms: Collection[str]) -> Any:
    """Compiles a piece with the least work; without the options that this XLA does not know."""
    (platform,) = platforms if len(platforms) == 1 else ("",)
    options = dict(_LEAST_WORK.get(platform, {}))
    while True:
        try:
            return lowered.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None or unknown[1] not in options:
                raise
            del options[unknown[1]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a program, and what is measured of it.

    Attributes:
        piece: The piece.
        key: Equal for pieces that are one executable.
        function: The piece as a function.
        own: Its measured equations, and the rows of each.
        inside: Those of their bodies.
    """

    piece: ProgramPiece
    key: Hashable
    function: Callable[..., Any]
    own: list[tuple[Path, int]]
    inside: list[tuple[Path, int]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a program is run in pieces.

    Attributes:
        closed: The program; kept, as plans are looked up by its identity.
        program: Its equations.
        parts: The pieces.
        last: The last piece that reads a value.
    """

    closed: Any
    program: OpenedJaxpr
    parts: tuple[_Part, ...]
    last: dict[int, int]


def execute(
    closed: Any,
    probe: Probe,
    args: Sequence[Any],
    change: Change | None = None,
    changed: Collection[Path] = (),
    compiled: CompiledPieces | None = None,
) -> tuple[list[Any], dict[Path, Any]]:
    """Compiles and runs a program with measurements in it, piece by piece.

    Args:
        closed: A closed jaxpr of JAX's.
        probe: What is measured.
        args: The program's flat arguments; none is donated.
        change: Changes the results of some equations, always in the same way.
        changed: These equations.
        compiled: Keeps what is compiled, for other runs of the same program.

    Returns:
        The program's flat results, then what its constants and arguments that are refs hold at the
        end, and the rows of each measured equation: the probe's figures, then the iterations of
        the loops around it, outermost first.
    """
    kept = CompiledPieces() if compiled is None else compiled
    which = (id(closed), probe.key, frozenset(changed))
    if which not in kept.plans:
        kept.plans[which] = _plan(closed, probe, change, which[-1], kept.tokens)
    plan = kept.plans[which]
    program, last = plan.program, plan.last
    values = program.consts | dict(zip(program.inputs, args, strict=True))
    values = {n: fresh(value) for n, value in values.items()}
    refs = list(filter(is_ref, values.values()))
    measured: list[tuple[list[Any], list[Any]]] = []

    def to_rows(*stacked: Any) -> Any:
        return probe.to_rows(stacked, None)

    number = sum(len(part.piece.steps) for part in plan.parts)
    step = progress.step(
        f"jaxlens compiles and runs {count(number, 'equation')}, each with its measurement",
        lambda: f"piece {len(measured) + 1} of {len(plan.parts)}",
    )
    with step, isolate.untouched(kept.context), compat.persistent_cache_off():
        for index, part in enumerate(plan.parts):
            operands = [values[n] for n in part.piece.reads]
            if makes_ref(part.piece.steps[0].eqn):
                results, stacked, inside = part.function(*operands)
            else:
                results, stacked, inside = kept(part.key, part.function, operands)
            # Apart, for equations next to measurements make large kernels, each compiled anew.
            shapes = tuple((array.shape, array.dtype) for array in stacked)
            rows = [kept((shapes, probe.key), to_rows, stacked)] if stacked else []
            values.update(zip(part.piece.writes, results, strict=True))
            # Two pieces at a time: dispatched ahead, each would take its memory at once.
            jax.block_until_ready(measured[-1] if measured else None)  # type: ignore[no-untyped-call]
            measured.append((rows, inside))
            for n in part.piece.reads:  # nothing is kept that is not read again
                if last[n] == index and n not in program.results:
                    del values[n]
        given = [n.value if isinstance(n, WrittenOperand) else values[n] for n in program.results]
        given += map(content, refs)
        results = jax.block_until_ready(given)  # type: ignore[no-untyped-call]
    isolate.retire()
    every: dict[Path, Any] = {}
    eqns = equations(closed)
    copies = jax.device_get(measured)  # all begin before the first is waited for
    for part, (rows, inside) in zip(plan.parts, copies, strict=True):
        for arrays, found in ((rows, part.own), (inside, part.inside)):
            if arrays:
                for path, rows_of_path in _split(np.concatenate(arrays), found):
                    every[path] = rows_of_path[:, : probe.width + loops_around(path, eqns)]
    return results, every


def _plan(
    closed: Any,
    probe: Probe,
    change: Change | None,
    changed: frozenset[Path],
    tokens: dict[Hashable, int],
) -> "_Plan":
    """Cuts a program into pieces, and says what is measured of each."""
    known = bodies(opened(closed))
    evaluator = Evaluator(probe, known, change, changed, deepest(known))
    program = open_calls(closed, (), evaluator.known)
    parts = []
    for piece in cut(program, evaluator.measured, tokens):
        own, inside = evaluator.own(piece.steps), evaluator.inside(piece.steps)
        within = {path[:n] for path in changed for n in range(1, len(path) + 1)}
        same = not (own or inside) and within.isdisjoint(step.path for step in piece.steps)
        key = piece.key, None if same else probe.key
        parts.append(_Part(piece, key, evaluator.function(piece), own, inside))
    last = {n: index for index, part in enumerate(parts) for n in part.piece.reads}
    return _Plan(closed, program, tuple(parts), last)


def _split(rows: Any, found: Sequence[tuple[Path, int]]) -> Iterator[tuple[Path, Any]]:
    """Yields each equation with its rows, of which there may be more."""
    start = 0
    for path, n in found:
        yield path, rows[start : start + n]
        start += n
