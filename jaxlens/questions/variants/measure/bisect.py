"""Finds the flag or pass that makes a program fail a check, by leaving some out.

Each trial is compiled and run in another process, which XLA may end. XLA_FLAGS and the program's
own compiler options are given there as options, so that a trial can leave one out.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line
from jaxlens.ir.hlo.passes import START
from jaxlens.questions.variants.bisected import (
    Bisected,
    CheckOutcome,
    TrialChange,
    TrialOutcome,
    TrialProgram,
    in_words,
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
        arguments = capture.driver.live().module_arguments() if run else None
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
        request = {**self._request, "options": options}
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
        )

    def passes(self) -> list[TrialChange]:
        """The passes that changed the program as it is, in order."""
        dump = self.answer["dump"]
        done = CompileOutput("", "", None, dump, (), True)
        names = dict.fromkeys(p.name for p in done.passes if p.changed and p.name != START)
        return [TrialChange("pass", name) for name in names]


def _kernels(dump: Dump, capture: Capture) -> int | None:
    try:
        return len(CompileOutput("", capture.program.target.platform, None, dump).kernels)
    except UnavailableError:
        return None


def judged(words: str, check: Check, program: TrialProgram) -> TrialOutcome:
    """Returns what a check says of a program: a fault is an AssertionError, or falsy but None.

    Raises:
        OptionError: The check returned what is neither true nor false.
    """
    try:
        verdict = check(program)
    except AssertionError as error:
        return TrialOutcome(words, "at fault", first_line(error, 100), program.changes)
    try:
        fine = verdict is None or bool(verdict)
    except Exception as error:  # an array of several elements, or what a user's class raises
        got = f"{type(verdict).__name__} ({first_line(error, 100)})"
        raise OptionError(f"the check must return True, False or None, got {got}") from None
    return TrialOutcome(words, "fine" if fine else "at fault", "", program.changes)


def bisect(capture: Capture, check: Check, run: int) -> Bisected:
    """Finds what makes a program fail a check; see `jaxlens.bisect`."""
    trials = _Trials(capture, check, run)
    at_fault: list[TrialChange] = []
    if trials.outcome() == "at fault":
        at_fault = _needed(trials, trials.flags)
        if trials.answer and not at_fault:
            at_fault = _needed(trials, trials.passes())
    return Bisected(capture.program.name, tuple(at_fault), trials.outcomes)


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
