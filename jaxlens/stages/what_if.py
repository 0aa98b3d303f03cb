"""Compiles a captured program once more, with a pass left out or a flag set: in a process apart.

XLA ends the process on some flags, so the process that compiles is never the user's. It gets the
very StableHLO that was compiled, stamps and all, so that every link of the result holds; and sends
back what XLA dumped. With `run` it executes both programs too, turn by turn.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, UnavailableError, nearest
from jaxlens.ir import hlo
from jaxlens.ir.facts import Kernel, Memory, PassStage, Stage, Timing
from jaxlens.ir.hlo_frames import origins
from jaxlens.ir.passes import START
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.compile import Compiled
from jaxlens.stages.dump import Dump
from jaxlens.stages.flag_names import names as flag_names

TIMEOUT = 600.0  # seconds
_CHILD = "jaxlens.stages.what_if_child"
_FUSING = "fusion"
_LINE = 200  # characters of a crash's last words


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


@dataclass(frozen=True)
class Asked:
    """What to leave out or to set.

    Attributes:
        passes: Names of passes that are not to run.
        flags: Flags of XLA's, with their values.
    """

    passes: tuple[str, ...] = ()
    flags: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """As `Program.flags` has them."""
        without = [f"without {' and '.join(self.passes)}"] if self.passes else []
        return (*without, *(f"{name}={value}" for name, value in self.flags))

    @property
    def options(self) -> dict[str, bool | int | str]:
        """As options of a compile."""
        found: dict[str, bool | int | str] = {name: _value(text) for name, text in self.flags}
        if self.passes:
            found["xla_disable_hlo_passes"] = ",".join(self.passes)
        return found


def _value(text: str) -> bool | int | str:
    """A flag's value: XLA takes no text for a truth value or a number."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def without(capture: Capture, names: str | Sequence[str], run: int = 0) -> tuple[
    Capture, Measured | None
]:  # fmt: skip
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
    answer = _compiled(_request(capture, asked, run), asked, run)
    if "flag" in answer:
        name = str(answer["flag"])
        raise OptionError(f"XLA has no flag {name!r}; {nearest(name, flag_names())}")
    if "error" in answer:
        raise UnavailableError(f"XLA did not compile it {_words(asked)}: {answer['error']}")
    program = replace(capture.program, flags=(*capture.program.flags, *asked.words))
    measured = answer.get("measured")
    return Capture(program, Recompiled(capture, answer)), Measured(*measured) if measured else None


def read(names: str | Sequence[str], capture: Capture) -> Asked:
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
    return Asked(tuple(dict.fromkeys(found)), flags)  # type: ignore[arg-type]


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


def _words(asked: Asked) -> str:
    words = [w if w.startswith("without ") else f"with {w}" for w in asked.words]
    return " and ".join(words)


def _request(capture: Capture, asked: Asked, run: int) -> dict[str, Any]:
    """What the other process needs to know."""
    program, driver = capture.program, capture.driver
    lowered = getattr(driver, "lowered", None)
    if lowered is None:
        raise UnavailableError(
            "a capture loaded from a file holds no program that could be compiled again; "
            "look at the call itself"
        )
    if program.target.devices > 1:
        raise UnavailableError(
            "programs for several devices are not compiled again; take one for a single device"
        )
    if program.target.absent and run:
        raise UnavailableError(
            f"{program.target.kind} is not here: what is compiled for it cannot be run"
        )
    target = getattr(driver, "target", "") if program.target.absent else ""
    if program.target.absent and not target:
        raise UnavailableError(f"{program.target.kind} is not here; name it with target=...")
    module = lowered.compiler_ir("stablehlo")
    if "callback" in capture.stablehlo.text:
        raise UnavailableError("the program calls back into Python, which only this process can do")
    return {
        "name": program.name,
        "module": _bytecode(module),
        "platform": "" if program.target.absent else program.target.platform,
        "target": target,
        "options": asked.options,
        "donated": [leaf.name for leaf in program.inputs if leaf.donated],
        "given": _given(driver, capture) if run else {},
        "run": run,
    }


def _bytecode(module: Any) -> bytes:
    """The module with its locations, which are its stamps."""
    import io

    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def _given(driver: Any, capture: Capture) -> dict[str, np.ndarray]:
    """The call's arrays by name; those that are shapes or gone are left out."""
    try:
        leaves = jax.tree.leaves(driver.given())
    except LensError:
        return {}
    names = [leaf.name for leaf in capture.program.inputs]
    if len(names) != len(leaves):
        return {}
    return {
        name: np.asarray(leaf)
        for name, leaf in zip(names, leaves, strict=True)
        if not isinstance(leaf, jax.ShapeDtypeStruct) and not _is_key(leaf)
    }


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key))


def _compiled(request: dict[str, Any], asked: Asked, run: int) -> dict[str, Any]:
    """What the other process answers."""
    with tempfile.TemporaryDirectory(prefix="jaxlens-") as folder:
        path = Path(folder)
        (path / "request").write_bytes(pickle.dumps(request))
        try:
            done = subprocess.run(
                [sys.executable, "-m", _CHILD, folder],
                env=_environment(request["platform"], bool(request["target"])),
                capture_output=True, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            doing = "compile and run it" if run else "compile it"
            raise UnavailableError(
                f"XLA took more than {TIMEOUT:.0f} s to {doing} {_words(asked)}; given up"
            ) from None
        answer = path / "answer"
        if done.returncode == 0 and answer.exists():
            found: dict[str, Any] = pickle.loads(answer.read_bytes())  # written by our own process
            return found
        raise UnavailableError(
            f"XLA ended its process when it compiled {_words(asked)} "
            f"({_how(done.returncode)}): {_last(done.stderr)}"
        )


def _environment(platform: str, absent: bool) -> dict[str, str]:
    """The same as here, but for where our own code is found and what JAX may take."""
    here = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    names, already = {"gpu": "cuda"}, os.environ.get("JAX_PLATFORMS", "")
    beside = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"} if absent else {}  # libtpu locks out a second
    return {
        **os.environ,
        **beside,
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu" if absent else already or names.get(platform, platform),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last(said: bytes) -> str:
    """The last words of a process that say something."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [
        line for line in lines if "Check failed" in line or "Error" in line or "F0000" in line
    ]
    return (telling or lines or ["it said nothing"])[-1][:_LINE]


class Recompiled:
    """Answers about a program compiled anew: early stages of the first capture, the rest its own.

    See `ir.facts.Driver` for what each method gives.
    """

    def __init__(self, first: Capture, answer: Mapping[str, Any]) -> None:
        self._first = first.driver
        self._memory: Memory = answer["memory"]
        self._cost: Mapping[str, float] = answer["cost"]
        self._compiled = Compiled(
            first.program.name,
            first.program.target.platform,
            None,
            answer["dump"],
            answer["times"],
            True,
            origins(lambda: first.stablehlo.module),
        )

    has_all_passes = True

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        dump: Dump = self._compiled.dump
        found = {"optimized": self._compiled.optimized}
        if dump.before:
            found["hlo"] = Stage(
                BY_NAME["hlo"],
                lambda: dump.before,
                lambda: hlo.read(dump.before, stage="hlo", origins=self._compiled.origins),
            )
        return found

    def stage(self, name: str) -> Stage:
        if name in self._stages:
            return self._stages[name]
        if name in ("llvm", "asm"):
            made: Stage = getattr(self._compiled, name)
            return self._stages.setdefault(name, made)
        return self._first.stage(name)

    def passes(self) -> tuple[PassStage, ...]:
        return self._compiled.passes

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self._compiled.kernels)

    def buffers(self) -> str:
        return self._compiled.buffers

    def fusion_log(self) -> str:
        return self._compiled.fusion_log

    @property
    def has_fusion_log(self) -> bool:
        """Whether XLA wrote one."""
        return bool(self._compiled.dump.fusion_log)

    def memory(self) -> Memory:
        return self._memory

    def cost(self) -> Mapping[str, float]:
        if not self._cost:
            raise UnavailableError("XLA has no cost analysis of it")
        return self._cost

    def times(self) -> tuple[Timing, ...]:
        return self._compiled.times

    def __getattr__(self, name: str) -> Any:
        """What no compile changes: verdict, outputs, constants, sources."""
        if name in ("verdict", "outputs", "constants", "sources"):
            return getattr(self._first, name)
        raise AttributeError(name)
