"""Compiles a captured program again with a pass disabled or a flag set, in a child process.

XLA aborts the process on some flags, so it never compiles in the user's. The child gets the same
StableHLO module, stamps included, so links to its source remain valid, and returns XLA's dumps.
With `run` it also executes both programs, alternately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.driver import RecordedDriver
from jaxlens.ir.fact import FactRow, T
from jaxlens.ir.facts import Stage
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import origins
from jaxlens.ir.hlo.passes import START
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.child.child import (
    RecompileRequest,
    compiled,
    request_of,
    start,
)
from jaxlens.stages.compile.output_driver import OutputDriver
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.compile.xla_options import flag_names

_FUSING = "fusion"
# A GPU runs fusions only: fusion-wrapper makes one of each single operation, and nothing compiles
# without it. The two others fuse what an earlier pass no longer does.
_WRAPPING, _FUSING_ON_GPU = "fusion-wrapper", ("priority-fusion", "multi_output_fusion")


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of alternate executions of both programs on the same inputs.

    Attributes:
        before: Seconds of each run of the original program.
        after: Seconds of each run of the recompiled program.
        how: How they were measured, in words.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    how: str


def without(
    capture: Capture, names: str | Sequence[str], run: int = 0
) -> tuple[Capture, Measured | None]:
    """Compiles a capture's program with passes disabled or flags set.

    Args:
        capture: A live capture for one device.
        names: Passes by name, and flags as `flag=value`, separated by commas.
        run: Number of timed runs of both programs; 0 for none.

    Returns:
        A capture of the recompiled program, and the times of the runs, if any.

    Raises:
        OptionError: There is no such pass or flag.
        UnavailableError: The program cannot be compiled again, or XLA crashed.
    """
    start(capture.program.target)  # imports JAX while the program is compiled here for its passes
    recompile = read(names, capture)
    request = request_of(capture, recompile, run)
    with progress.step(_announcement(capture, recompile, run)):
        answer = _checked(compiled(capture, request, recompile, run), recompile)
    program = replace(capture.program, flags=(*capture.program.flags, *recompile.words))
    measured = answer.get("measured")
    return Capture(program, _Recompiled(capture, answer)), Measured(*measured) if measured else None


def outputs_without(capture: Capture, name: str) -> list[Any]:
    """Returns the results of a program compiled without a pass or with a flag, as arrays.

    Args:
        capture: A live capture for one device.
        name: As `without` takes it; "" for the program as it is.

    Raises:
        OptionError: There is no such pass or flag.
        UnavailableError: The program cannot be compiled again, or XLA crashed.
    """
    recompile = read(name, capture) if name else RecompileRequest()
    live = capture.driver.live()
    arrays = [np.asarray(x) for x in live.passed(live.staging.lowered)]
    request = {**request_of(capture, recompile, 0), "arrays": arrays}
    with progress.step(_announcement(capture, recompile, 1)):
        return list(_checked(compiled(capture, request, recompile, 1), recompile)["outputs"])


def _checked(answer: dict[str, Any], recompile: RecompileRequest) -> dict[str, Any]:
    """Returns an answer that is no error."""
    if "flag" in answer:
        name = str(answer["flag"])
        raise OptionError(f"XLA has no flag {name!r}; {nearest(name, flag_names())}")
    if "error" in answer:
        raise UnavailableError(f"XLA did not compile it {recompile.clause}: {answer['error']}")
    return answer


def _announcement(capture: Capture, recompile: RecompileRequest, run: int) -> str:
    """Returns what is about to be done, and how long the program's own compile took."""
    seconds = next((t.seconds for t in capture.times if t.step == "compile"), None)
    own = "" if seconds is None else f", where its own compile took {seconds:.2g} s"
    runs = f", and {run} runs of each" if run else ""
    return f"compiling {capture.program.name} {recompile.clause} in another process{runs}{own}"


def read(names: str | Sequence[str], capture: Capture) -> RecompileRequest:
    """Parses the names of passes and the flags of a recompile.

    "fusion" stands for every pass that joined operations, unless a pass has that exact name.

    Raises:
        OptionError: There is no such pass, or it changed nothing here.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    words = [word.strip().removeprefix("--") for word in words if word.strip()]
    if not words:
        raise OptionError("without takes the name of a pass, or flag=value")
    flags = tuple(tuple(w.split("=", 1)) for w in words if "=" in w)
    plain = [word for word in words if "=" not in word]
    dumps = capture.passes if plain else ()
    changed = list(dict.fromkeys(p.name for p in dumps if p.changed and p.name != START))
    disabled: list[str] = []
    for word in plain:
        fusing = word == _FUSING and word not in changed
        passes = _fusing(capture) if fusing else [word]
        if word not in changed and not (fusing and passes):
            raise OptionError(
                f"no pass {word!r} changed this program; {nearest(word, changed)} "
                "(a flag is written flag=value)"
            )
        disabled += passes
    return RecompileRequest(tuple(dict.fromkeys(disabled)), flags)  # type: ignore[arg-type]


def _fusing(capture: Capture) -> list[str]:
    """Returns the passes that made fusions, and on a GPU those that would without them."""
    count, names = 0, []
    for dump in capture.passes:
        if dump.changed or not dump.index:
            fusions = dump.stage.raw.count(" fusion(")
            if fusions > count and dump.name not in (START, _WRAPPING):
                names.append(dump.name)
            count = fusions
    is_gpu = capture.program.target.platform == "gpu"
    return [*names, *_FUSING_ON_GPU] if names and is_gpu else names


class _Recompiled(OutputDriver, RecordedDriver):
    """Serves compiled stages from the child's answer, and earlier ones from the first capture."""

    def __init__(self, first: Capture, answer: Mapping[str, Any]) -> None:
        self._first = first.driver
        output = CompileOutput(
            first.program.name,
            first.program.target.platform,
            None,
            answer["dump"],
            answer["times"],
            True,
            origins(lambda: first.stablehlo.module),
        )
        vars(output).update({n: answer[n] for n in ("memory", "cost") if answer[n]})
        super().__init__(output)

    def stage(self, name: str) -> Stage:
        if name == "hlo" and self._output.dump.before:
            return self._before
        is_compiled = name in ("optimized", "llvm", "asm")
        return super().stage(name) if is_compiled else self._first.stage(name)

    @cached_property
    def _before(self) -> Stage:
        text, origins = self._output.dump.before, self._output.origins
        return Stage(
            BY_NAME["hlo"], lambda: text, lambda: hlo.read(text, stage="hlo", origins=origins)
        )

    def fact(self, row: FactRow[T]) -> T:
        """Returns a fact; those of the trace do not depend on the compile."""
        return self._first.fact(row) if row.stage == "jaxpr" else super().fact(row)

    def deviations(self) -> tuple[str, ...]:
        return self._first.deviations()
