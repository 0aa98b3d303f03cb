"""Compiles a captured program once more, with a pass left out or a flag set: in a process apart.

XLA ends the process on some flags, so the process that compiles is never the user's. It gets the
very StableHLO that was compiled, stamps and all, so that every link of the result holds; and sends
back what XLA dumped. With `run` it executes both programs too, turn by turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.facts import PassStage
from jaxlens.ir.hlo.passes import START
from jaxlens.stages.experiments.flag_names import names as flag_names
from jaxlens.stages.experiments.other_process import RecompileRequest, compiled, request_of
from jaxlens.stages.experiments.recompiled_driver import Recompiled

_FUSING = "fusion"


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of some executions of both programs, turn by turn on the same inputs.

    Attributes:
        before: Of the program as it is.
        after: Of the one that was compiled anew.
        how: How they were measured, in words.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    how: str


def without(
    capture: Capture, names: str | Sequence[str], run: int = 0
) -> tuple[Capture, Measured | None]:
    """The same program compiled with passes left out or flags set.

    Args:
        capture: A live capture for one device.
        names: Passes by name, and flags as `flag=value`, one or several with commas between.
        run: How often to execute both programs; 0 for not at all.

    Returns:
        A capture of what came out, and what running took.

    Raises:
        OptionError: There is no such pass or flag.
        UnavailableError: The program cannot be compiled again, or XLA did not live through it.
    """
    asked = read(names, capture)
    answer = compiled(request_of(capture, asked, run), asked, run)
    if "flag" in answer:
        name = str(answer["flag"])
        raise OptionError(f"XLA has no flag {name!r}; {nearest(name, flag_names())}")
    if "error" in answer:
        raise UnavailableError(f"XLA did not compile it {asked.clause}: {answer['error']}")
    program = replace(capture.program, flags=(*capture.program.flags, *asked.words))
    measured = answer.get("measured")
    return Capture(program, Recompiled(capture, answer)), Measured(*measured) if measured else None


def read(names: str | Sequence[str], capture: Capture) -> RecompileRequest:
    """What was asked for, in passes that changed this program and in flags.

    "fusion" means every pass that made fusions, where no pass has that very name.

    Raises:
        OptionError: There is no such pass, or it changed nothing here.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    words = [word.strip().removeprefix("--") for word in words if word.strip()]
    if not words:
        raise OptionError("without takes the name of a pass, or flag=value")
    flags = tuple(tuple(w.split("=", 1)) for w in words if "=" in w)
    wanted = [word for word in words if "=" not in word]
    known = list(dict.fromkeys(p.name for p in capture.passes if p.changed)) if wanted else []
    found: list[str] = []
    for word in wanted:
        fusing = _fusing(capture.passes) if word == _FUSING and word not in known else []
        if word not in known and not fusing:
            raise OptionError(
                f"no pass {word!r} changed this program; {nearest(word, known)} "
                "(a flag is written flag=value)"
            )
        found += [word] if word in known else fusing
    return RecompileRequest(tuple(dict.fromkeys(found)), flags)  # type: ignore[arg-type]


def _fusing(passes: Sequence[PassStage]) -> list[str]:
    """The passes after which more fusions stand in the program than before."""
    found: list[str] = []
    count = 0
    for dump in passes:
        if dump.changed or not dump.index:
            fusions = dump.stage.raw.count(" fusion(")
            if fusions > count and dump.name != START:
                found.append(dump.name)
            count = fusions
    return list(dict.fromkeys(found))
