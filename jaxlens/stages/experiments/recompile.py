"""Compiles a captured program again with a pass disabled or a flag set, in a child process.

XLA aborts the process on some flags, so it never compiles in the user's. The child gets the same
StableHLO module, stamps included, so links to its source remain valid, and returns XLA's dumps.
With `run` it also executes both programs, alternately.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.facts import PassStage
from jaxlens.ir.hlo.passes import START
from jaxlens.stages.compile.xla_options import flag_names
from jaxlens.stages.experiments.other_process import RecompileRequest, compiled, request_of
from jaxlens.stages.experiments.recompiled_driver import Recompiled

_FUSING = "fusion"


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
    recompile = read(names, capture)
    answer = compiled(request_of(capture, recompile, run), recompile, run)
    if "flag" in answer:
        name = str(answer["flag"])
        raise OptionError(f"XLA has no flag {name!r}; {nearest(name, flag_names())}")
    if "error" in answer:
        raise UnavailableError(f"XLA did not compile it {recompile.clause}: {answer['error']}")
    program = replace(capture.program, flags=(*capture.program.flags, *recompile.words))
    measured = answer.get("measured")
    return Capture(program, Recompiled(capture, answer)), Measured(*measured) if measured else None


def read(names: str | Sequence[str], capture: Capture) -> RecompileRequest:
    """Parses the names of passes and the flags of a recompile.

    "fusion" stands for every pass that created fusions, unless a pass has that exact name.

    Raises:
        OptionError: There is no such pass, or it changed nothing here.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    words = [word.strip().removeprefix("--") for word in words if word.strip()]
    if not words:
        raise OptionError("without takes the name of a pass, or flag=value")
    flags = tuple(tuple(w.split("=", 1)) for w in words if "=" in w)
    plain = [word for word in words if "=" not in word]
    changed = list(dict.fromkeys(p.name for p in capture.passes if p.changed)) if plain else []
    disabled: list[str] = []
    for word in plain:
        fusing = word == _FUSING and word not in changed
        passes = list(_fusing(capture.passes)) if fusing else [word]
        if word not in changed and not (fusing and passes):
            raise OptionError(
                f"no pass {word!r} changed this program; {nearest(word, changed)} "
                "(a flag is written flag=value)"
            )
        disabled += passes
    return RecompileRequest(tuple(dict.fromkeys(disabled)), flags)  # type: ignore[arg-type]


def _fusing(passes: Sequence[PassStage]) -> Iterator[str]:
    """Yields the passes that increase the number of fusions in the module."""
    count = 0
    for dump in passes:
        if dump.changed or not dump.index:
            fusions = dump.stage.raw.count(" fusion(")
            if fusions > count and dump.name != START:
                yield dump.name
            count = fusions
