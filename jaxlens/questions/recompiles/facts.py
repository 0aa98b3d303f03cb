"""Counts what a compile log holds."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.ir.compile_log import CompileLog


@dataclass(frozen=True, slots=True)
class Recompiles:
    """The figures of a compile log.

    Attributes:
        compiles: Number of programs of functions, from XLA or the persistent cache.
        recompiles: Number of those whose function had been compiled for another key.
        loaded: Number of those that were in the persistent cache.
        traces: Number of traces of functions.
        operations: Number of programs of single operations outside of jit.
        seconds: Seconds of all steps, as measured by JAX.
        by_function: Number of compiles by function name.
        reasons: The cause of each recompile, one line each.
    """

    compiles: int
    recompiles: int
    loaded: int
    traces: int
    operations: int
    seconds: float
    by_function: Mapping[str, int]
    reasons: tuple[str, ...]


def facts(log: CompileLog) -> Recompiles:
    """Returns the figures of a log."""
    users = [call for call in log.calls if call.role == "user"]
    return Recompiles(
        compiles=len(log.compiles),
        recompiles=len(log.recompiles),
        loaded=sum(call.loaded for call in users),
        traces=sum(s.kind == "trace" and not s.served for call in users for s in call.steps),
        operations=len(log.operations),
        seconds=sum(call.seconds for call in log.calls),
        by_function=dict(Counter(call.function for call in log.compiles)),
        reasons=tuple(f"{call.function}: {call.reason}" for call in log.recompiles),
    )
