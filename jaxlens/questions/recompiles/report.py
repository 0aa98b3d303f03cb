"""Reports why functions recompiled: the responsible argument, old and new, from a compile log.

A recompile is explained by the differences between its key and the nearest earlier key of the
function; recompiles of one function with one cause are one sentence. Operations outside of jit are
counted separately.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.ir.compile_log import CompileLog
from jaxlens.program.recompile_causes import answers, at, tables
from jaxlens.program.sentences import listed
from jaxlens.questions.recompiles.asides import asides
from jaxlens.report import Finding, Report

_FEW = 3  # compiles that an error lists


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
    steps = [(call, step) for call in log.calls for step in call.steps]
    return Recompiles(
        compiles=len(log.compiles),
        recompiles=len(log.recompiles),
        loaded=sum(call.role == "user" and step.served == "disk" for call, step in steps),
        traces=sum(
            call.role == "user" and step.kind == "trace" and not step.served for call, step in steps
        ),
        operations=len(log.operations),
        seconds=sum(call.seconds for call in log.calls),
        by_function=dict(Counter(call.function for call in log.compiles)),
        reasons=tuple(f"{call.function}: {call.reason}" for call in log.recompiles),
    )


def recompiles(log: CompileLog, where: str = "") -> Report:
    """Reports a log in sentences and tables, the recompiles first.

    Args:
        log: The compile log.
        where: "in this cell", or "".
    """
    findings = [*answers(log, where), *asides(log, where)]
    place = f" {where}" if where else ""
    if not findings and log.calls:
        names = listed(list(dict.fromkeys(call.function for call in log.calls)), 6)
        text = f"Nothing was compiled{place}; {names} went no further than its trace."
        findings = [Finding(text)]
    elif not findings:
        so_far = " so far" if log.going else ""
        text = f"Nothing was traced or compiled{place}{so_far}: JAX's caches served every call."
        findings = [Finding(text)]
    findings += [Finding(f"{text}.", "unknown") for text in log.trouble]
    return Report("Recompiles", tuple(findings), tuple(tables(log)))


def one_line(log: CompileLog, operations: bool = False) -> str:
    """Returns what compiled and why, in one line for an error, recompiles first.

    Args:
        log: The compile log.
        operations: Whether to include single operations.
    """
    compiles = (*log.compiles, *(log.operations if operations else ()))
    calls = sorted(compiles, key=lambda call: not call.changes)
    texts = [
        f"{c.name}{', backward pass' * c.backward}{at(c.line)} "
        f"({c.reason}{'; loaded from the persistent cache' * c.loaded})"
        for c in calls[:_FEW]
    ]
    more = f", and {len(calls) - _FEW} more" if len(calls) > _FEW else ""
    return f"{'; '.join(texts)}{more}"
