"""Finds the flag, pass or fusion that makes a program fail a check, by leaving some out.

Each trial is compiled and run in another process, which XLA may end. XLA_FLAGS and the program's
own compiler options are given there as options, so that a trial can leave one out.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line
from jaxlens.in_hand.bisected import (
    Bisected,
    CheckOutcome,
    TrialChange,
    TrialOutcome,
    TrialProgram,
    in_words,
)
from jaxlens.interrupts import temporary_folder
from jaxlens.ir.hlo.passes import START
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.experiments.other_process import (
    RecompileRequest,
    compiled,
    flag_value,
    request_of,
)
from jaxlens.stages.programs.unfuse import fusions, unfused

Check = Callable[[TrialProgram], bool | None]
_DISABLED = "xla_disable_hlo_passes"
_TIMEOUT = 300.0  # seconds for a program with another interpreter
# Runs the file of `Capture.reproducer` with another interpreter.
_OTHER_VERSION = """\
import runpy, time, jax, numpy as np
open("version.txt", "w").write(jax.__version__)
done = runpy.run_path("repro.py")
compiled, arguments = done["compiled"], done["arguments"]
seconds = []
if not done["DONATED"]:
    for _ in range(RUNS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        seconds.append(time.perf_counter() - start)
outputs = [np.asarray(o) for o in done["outputs"]]
plain = [o if o.dtype.kind in "biufc" else o.astype(np.float32) for o in outputs]
memory = compiled.memory_analysis()
temporaries = -1 if memory is None else memory.temp_size_in_bytes
np.savez("outputs.npz", *plain)
np.savez("facts.npz", seconds=seconds, temporaries=temporaries)
open("optimized.txt", "w").write(compiled.as_text())
"""


class _Trials:
    """The trials of one program, each made once."""

    def __init__(self, capture: Capture, check: Check, run: int) -> None:
        self._capture = capture
        self._check = check
        self._request = request_of(capture, RecompileRequest(), 0)
        own = dict(self._request["own"])
        flags = dict(flag.split("=", 1) for flag in xla_flags() if "=" in flag)
        flags |= {flag: "true" for flag in xla_flags() if "=" not in flag}
        options: dict[str, Any] = {name: flag_value(text) for name, text in flags.items()} | own
        self._disabled = tuple(filter(None, str(options.pop(_DISABLED, "")).split(",")))
        self._options = options
        arguments = capture.driver.module_arguments() if run else None
        self._request |= {"own": (), "arguments": arguments, "runs": run}
        self._done: dict[frozenset[TrialChange], TrialOutcome] = {}
        self.answer: Mapping[str, Any] = {}

    @property
    def outcomes(self) -> tuple[TrialOutcome, ...]:
        return tuple(self._done.values())

    @property
    def flags(self) -> list[TrialChange]:
        """The flags that are set; of a list of disabled passes, each is one."""
        set_ = [f"{name}={str(value).lower()}" for name, value in self._options.items()]
        set_ += [f"{_DISABLED}={name}" for name in self._disabled]
        return [TrialChange("flag", text) for text in set_]

    def outcome(self, changes: Sequence[TrialChange] = ()) -> CheckOutcome:
        """Compiles and runs the program without some things, and checks it."""
        key = frozenset(changes)
        if key not in self._done:
            self._done[key] = self._tried(tuple(changes))
        return self._done[key].outcome

    def _tried(self, changes: tuple[TrialChange, ...]) -> TrialOutcome:
        words = in_words(changes) or "as it is"
        try:
            with progress.step(f"compiling {self._capture.program.name} {words}"):
                answer = self._compiled(changes)
        except UnavailableError as crash:
            # A crash is the fault itself if the program as it is crashes.
            same = not changes or self._done[frozenset()].why.startswith("XLA ended")
            return TrialOutcome(words, "at fault" if same else "unknown", str(crash), changes)
        fault = answer.get("error") or (answer.get("flag") and f"no flag {answer['flag']}")
        if fault:
            same = not changes or self._done[frozenset()].why == str(fault)
            return TrialOutcome(words, "at fault" if same else "unknown", str(fault), changes)
        if not changes:
            self.answer = answer
        return judged(words, self._check, self._program(answer, changes))

    def _compiled(self, changes: tuple[TrialChange, ...]) -> Mapping[str, Any]:
        left = {c.name for c in changes if c.kind == "flag"}
        options = {
            name: value
            for name, value in self._options.items()
            if f"{name}={str(value).lower()}" not in left
        }
        passes = [p for p in self._disabled if f"{_DISABLED}={p}" not in left]
        passes += [c.name for c in changes if c.kind == "pass"]
        if passes:
            options[_DISABLED] = ",".join(passes)
        apart = {c.name for c in changes if c.kind == "fusion"}
        module = unfused(self.answer["editable"], apart) if apart else self._request["module"]
        request = {**self._request, "module": module, "options": options}
        return compiled(self._capture, request, RecompileRequest(), 1, clean=True)

    def _program(self, answer: Mapping[str, Any], changes: tuple[TrialChange, ...]) -> TrialProgram:
        seconds = answer.get("seconds")
        return TrialProgram(
            tuple(answer.get("outputs", ())),
            median(seconds) if seconds else None,
            answer["memory"].temporaries,
            _kernels(answer["dump"], self._capture),
            answer["dump"].optimized,
            changes,
            self._capture.program.target.jax,
        )

    def passes(self) -> list[TrialChange]:
        """The passes that changed the program as it is, in order."""
        dump = self.answer["dump"]
        done = CompileOutput("", "", None, dump, (), True)
        names = dict.fromkeys(p.name for p in done.passes if p.changed and p.name != START)
        return [TrialChange("pass", name) for name in names]

    def fusions(self) -> list[TrialChange]:
        """The fusions of the program as it is that can be run op by op."""
        return [TrialChange("fusion", name) for name in fusions(self.answer["editable"])]


def _kernels(dump: Dump, capture: Capture) -> int | None:
    try:
        return len(CompileOutput("", capture.program.target.platform, None, dump).kernels)
    except UnavailableError:
        return None


def judged(words: str, check: Check, program: TrialProgram) -> TrialOutcome:
    """Returns what a check says of a program; an AssertionError of its own is a fault."""
    try:
        fine = check(program)
    except AssertionError as error:
        return TrialOutcome(words, "at fault", first_line(error, 100), program.changes)
    return TrialOutcome(words, "at fault" if fine is False else "fine", "", program.changes)


def bisect(
    capture: Capture, check: Check, pythons: Sequence[str | os.PathLike[str]], run: int
) -> Bisected:
    """Finds what makes a program fail a check; see `jaxlens.bisect`."""
    trials = _Trials(capture, check, run)
    at_fault: list[TrialChange] = []
    apart: list[TrialChange] = []
    if trials.outcome() == "at fault":
        at_fault = _needed(trials, trials.flags)
        if trials.answer and not at_fault:
            at_fault = _needed(trials, trials.passes())
            apart = _needed(trials, trials.fusions())
    versions = [_version(capture, check, python, run) for python in pythons]
    return Bisected(
        capture.program.name, tuple(at_fault), tuple(apart), trials.outcomes, tuple(versions)
    )


def _needed(trials: _Trials, changes: list[TrialChange]) -> list[TrialChange]:
    """Returns the fewest changes found without which the program is at fault; [] for none.

    Halves that are not fine are searched too: to leave much out may be a fault by itself.
    """
    if not changes:
        return []
    if trials.outcome(changes) == "fine":
        return _fewest(trials, changes)
    if len(changes) == 1:
        return []
    half = len(changes) // 2
    return _needed(trials, changes[:half]) or _needed(trials, changes[half:])


def _fewest(trials: _Trials, changes: list[TrialChange]) -> list[TrialChange]:
    """Returns a part of some changes that is fine, and of which no smaller part was."""
    half = len(changes) // 2
    for part in (changes[:half], changes[half:]) if half else ():
        if trials.outcome(part) == "fine":
            return _fewest(trials, part)
    needed = changes
    for change in changes:
        rest = [other for other in needed if other != change]
        if rest and trials.outcome(rest) == "fine":
            needed = rest
    return needed


def _version(
    capture: Capture, check: Check, python: str | os.PathLike[str], run: int
) -> TrialOutcome:
    """Runs the program's file with another interpreter, and checks it."""
    code = f"RUNS = {max(run, 1)}\n{_OTHER_VERSION}"
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    with temporary_folder() as path:
        capture.reproducer(path / "repro.py", data=True)
        try:
            with progress.step(f"another interpreter runs {capture.program.name}"):
                done = subprocess.run(
                    [python, "-c", code],
                    cwd=path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=_TIMEOUT,
                )
            version = (path / "version.txt").read_text()
        except (OSError, subprocess.SubprocessError):
            raise OptionError(
                f"expected an interpreter with jax, got {os.fspath(python)!r}: "
                "pythons=['env/bin/python']"
            ) from None
        words = f"jax {version}"
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return TrialOutcome(words, "at fault", (lines or ["it said nothing"])[-1][:200])
        with np.load(path / "outputs.npz") as saved, np.load(path / "facts.npz") as facts:
            outputs = tuple(saved[name] for name in saved)
            seconds = list(facts["seconds"])
            temporaries = int(facts["temporaries"])
        text = (path / "optimized.txt").read_text()
        program = TrialProgram(
            outputs,
            float(median(seconds)) if seconds else None,
            temporaries if temporaries >= 0 else None,
            _kernels(Dump(optimized=text), capture),
            text,
            jax=version,
        )
    return judged(words, check, program)
