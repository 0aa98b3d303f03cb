"""Finds the flag or pass that makes a program fail a check, by leaving out one after another.

Each trial is compiled and run in another process, which XLA may end. XLA_FLAGS and the program's
own compiler options are given there as options, so that a trial can leave one out.
"""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line
from jaxlens.ir.hlo.passes import START
from jaxlens.questions.variants.bisected import (
    Bisected,
    TrialChange,
    TrialOutcome,
    TrialProgram,
)
from jaxlens.stages.child.child import (
    RecompileRequest,
    compiled,
    flag_value,
    request_of,
)
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.compile.xla_options import xla_flags

Check = Callable[[TrialProgram], Any]
_DISABLED = "xla_disable_hlo_passes"


class _Trials:
    """Makes the trials of one program."""

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
        arguments = capture.driver.live().module_arguments() if run else None
        self._request |= {"own": (), "arguments": arguments, "runs": run}
        self._fault = ""  # what ended or failed the compile of the program as it is
        self.passes: list[TrialChange] = []  # that changed the program as it is, in order

    @property
    def flags(self) -> list[TrialChange]:
        """The flags that are set; of a list of disabled passes, each is one."""
        set_ = [f"{name}={str(value).lower()}" for name, value in self._options.items()]
        set_ += [f"{_DISABLED}={name}" for name in self._disabled]
        return [TrialChange("flag", text) for text in set_]

    def outcome(self, change: TrialChange | None = None) -> TrialOutcome:
        """Compiles and runs the program without a flag or pass, and checks it."""
        words = TrialOutcome(change, "unknown").tried
        try:
            with progress.step(f"compiling {self._capture.program.name} {words}"):
                answer = self._compiled(change)
        except UnavailableError as crash:
            return self._failed(change, "XLA ended its process", str(crash))
        fault = answer.get("error") or (answer.get("flag") and f"no flag {answer['flag']}")
        if fault:
            return self._failed(change, str(fault), str(fault))
        if change is None:
            self.passes = _passes(answer["dump"])
        return judged(change, self._check, self._program(answer))

    def _failed(self, change: TrialChange | None, fault: str, why: str) -> TrialOutcome:
        """Returns a trial that did not compile: at fault if the program as it is fails alike."""
        if change is None:
            self._fault = fault
        return TrialOutcome(change, "at fault" if fault == self._fault else "unknown", why)

    def _compiled(self, change: TrialChange | None) -> Mapping[str, Any]:
        left = change.name if change is not None and change.kind == "flag" else ""
        options = {
            name: value
            for name, value in self._options.items()
            if f"{name}={str(value).lower()}" != left
        }
        passes = [p for p in self._disabled if f"{_DISABLED}={p}" != left]
        passes += [change.name] if change is not None and change.kind == "pass" else []
        if passes:
            options[_DISABLED] = ",".join(passes)
        request = {**self._request, "options": options}
        return compiled(self._capture, request, RecompileRequest(), 1, clean=True)

    def _program(self, answer: Mapping[str, Any]) -> TrialProgram:
        seconds = answer.get("seconds")
        return TrialProgram(
            tuple(answer.get("outputs", ())),
            median(seconds) if seconds else None,
            answer["memory"].temporaries,
            _kernels(answer["dump"], self._capture),
            answer["dump"].optimized,
        )


def _passes(dump: Dump) -> list[TrialChange]:
    done = CompileOutput("", "", None, dump, (), True)
    names = dict.fromkeys(p.name for p in done.passes if p.changed and p.name != START)
    return [TrialChange("pass", name) for name in names]


def _kernels(dump: Dump, capture: Capture) -> int | None:
    try:
        return len(CompileOutput("", capture.program.target.platform, None, dump).kernels)
    except UnavailableError:
        return None


def judged(change: TrialChange | None, check: Check, program: TrialProgram) -> TrialOutcome:
    """Returns what a check says of a program: a fault is an AssertionError, or falsy but None.

    Raises:
        OptionError: The check returned what is neither true nor false.
    """
    try:
        verdict = check(program)
    except AssertionError as error:
        return TrialOutcome(change, "at fault", first_line(error, 100))
    try:
        fine = verdict is None or bool(verdict)
    except Exception as error:  # an array of several elements, or what a user's class raises
        got = f"{type(verdict).__name__} ({first_line(error, 100)})"
        raise OptionError(f"the check must return True, False or None, got {got}") from None
    return TrialOutcome(change, "fine" if fine else "at fault")


def bisect(capture: Capture, check: Check, run: int) -> Bisected:
    """Finds what makes a program fail a check; see `jaxlens.bisect`."""
    made = _Trials(capture, check, run)
    trials = [made.outcome()]
    found: TrialChange | None = None
    if trials[0].outcome == "at fault":
        for change in (*made.flags, *made.passes):
            trials.append(made.outcome(change))
            if trials[-1].outcome == "fine":
                found = change
                break
    return Bisected(capture.program.name, found, tuple(trials))
