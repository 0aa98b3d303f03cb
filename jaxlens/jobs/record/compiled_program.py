"""A program that JAX compiled for the user's call, as a capture: nothing is compiled again."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from jaxlens.call.target import target_of
from jaxlens.compat import events as compat_events
from jaxlens.errors import UnavailableError
from jaxlens.ir.compile_log import CallEvent
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import (
    Constant,
    Input,
    Memory,
    Program,
    Source,
    Stage,
    Static,
    Timing,
    Verdict,
)
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.record import RECORD, RecordedConstant
from jaxlens.ir.saved.save import parts
from jaxlens.ir.stage import BY_NAME
from jaxlens.jobs.record.lowered_program import LoweredProgram
from jaxlens.stages.compile import analyses
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.trace import captured_arrays, sources
from jaxlens.stages.trace.jaxpr_stage import stage_of_jaxpr

_LARGEST_CONSTANT = 1 << 20  # bytes of an array whose values are hashed
_STAGES = ("jaxpr", "stablehlo", "optimized")


class CompiledProgram(Driver):
    """Reads the stages of a program from what JAX made of it, in any thread.

    Attributes:
        text: Its StableHLO.
        platform: "cpu", "gpu" or "tpu".

    Args:
        call: The call that compiles it.
        lowered: What it is compiled from.
        executable: The loaded executable of XLA.
        source: Gives what is saved as the text of a file or cell.
    """

    holder = RECORD
    cure = "look at the call itself: jaxlens.capture(f, x)"

    def __init__(
        self,
        call: CallEvent,
        lowered: LoweredProgram,
        executable: Any,
        source: Callable[[str], str],
    ) -> None:
        self._target = target_of(lowered.devices or tuple(executable.local_devices()))
        self._executable = LoadedExecutable(executable)
        self._call = replace(call, parts=lowered.key)
        self._lowered, self._source = lowered, source
        self.text = lowered.text
        self.platform = self._target.platform

    @cached_property
    def digest(self) -> str:
        """A hash of the program's text: of two processes it is equal if the programs are."""
        text = f"{self.text}\n{self._optimized}"
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @cached_property
    def _optimized(self) -> str:
        return self._executable.as_text()

    def parts(self) -> dict[str, bytes]:
        """Returns the parts of a saved capture."""
        return parts(self.program, self, _STAGES, ("jaxpr",))

    @property
    def program(self) -> Program:
        """What the program is."""
        statics = tuple(Static(p.name, p.text) for p in self._call.parts if p.kind == "static")
        return Program(
            self._call.function,
            self._inputs(),
            statics,
            self._target,
            self._call.defined,
            origin=f"read from {self.holder}",
        )

    def _inputs(self) -> tuple[Input, ...]:
        if self._lowered.jaxpr is None:
            return ()
        jaxpr, donated = self._lowered.jaxpr, self._lowered.donated
        names = compat_events.program_names(jaxpr)
        avals = jaxpr.in_avals
        flags = donated if len(donated) == len(avals) else (False,) * len(avals)
        # The key has the user's names where a library hands over containers of its own.
        own = [part.name for part in self._call.parts if part.kind == "input"]
        own = own if len(own) == len(avals) else list(names)
        return tuple(
            Input(user, type_of(aval), flag, path="" if name == user else name)
            for user, name, aval, flag in zip(own, names, avals, flags, strict=True)
        )

    def stage(self, name: str) -> Stage:
        if name == "jaxpr" and self._lowered.jaxpr is not None:
            return self._jaxpr
        texts = {"stablehlo": self.text, "optimized": self._optimized}
        if texts.get(name):  # their modules are read when the record is opened
            return Stage(BY_NAME[name], lambda: texts[name], lambda: self.lacks("module"))
        return super().stage(name)

    @cached_property
    def _jaxpr(self) -> Stage:
        stage = stage_of_jaxpr(self._lowered.jaxpr, self._call.function)
        return Stage(stage.info, str, lambda: stage.module)  # its text is written when it is read

    def outputs(self) -> tuple[Input, ...]:
        if self._lowered.jaxpr is None:
            self.lacks("names of results")
        jaxpr = self._lowered.jaxpr
        paths = getattr(jaxpr.jaxpr.debug_info, "result_paths", None) or ()
        if len(paths) != len(jaxpr.out_avals):
            paths = [f"[{i}]" for i in range(len(jaxpr.out_avals))]
        pairs = zip(paths, jaxpr.out_avals, strict=True)
        return tuple(Input(f"result{str(p).removeprefix('result')}", type_of(a)) for p, a in pairs)

    def constants(self) -> tuple[Constant, ...]:
        if self._lowered.jaxpr is None:
            self.lacks("list of captured arrays")
        # The function, whose closure would give them names, is not kept.
        found = captured_arrays.constants(self._survey, lambda: None)
        return tuple(replace(array, held="") for array in found)

    def hashed_constants(self) -> tuple[RecordedConstant, ...]:
        """Returns the constants with a hash of the values of those that are small and in memory."""
        if self._lowered.jaxpr is None:
            return ()
        captured = self._survey.captured
        return tuple(RecordedConstant(str(type_of(c.aval)), _digest(c.value)) for c in captured)

    @cached_property
    def _survey(self) -> captured_arrays.Survey:
        return captured_arrays.survey(self._lowered.jaxpr)

    def memory(self) -> Memory:
        return analyses.memory(self._executable)

    def cost(self) -> Mapping[str, float]:
        return analyses.cost(self._executable, self.platform)

    def times(self) -> tuple[Timing, ...]:
        steps = self._call.steps
        return tuple(Timing(step.kind, step.seconds or 0.0, step.served) for step in steps)

    def verdict(self) -> Verdict:
        reasons = tuple(map(str, self._call.changes)) or (self._call.reason,)
        return Verdict(False, self._call.layer, reasons, self._call.earlier)

    def sources(self) -> Mapping[str, Source]:
        """Returns the text of the user's files; that of libraries is left out, as it is large."""
        if self._lowered.jaxpr is None:
            raise UnavailableError("the record has no source text of this program")
        spans = self._jaxpr.module, self._call.defined
        return sources.sources(*spans, libraries=False, read=self._source)


def _digest(value: Any) -> str:
    """Returns a hash of an array's values; "" for one that is large, or not in host memory."""
    import numpy as np

    is_near = isinstance(value, np.ndarray) or getattr(value, "is_fully_addressable", False)
    if not is_near or getattr(value, "nbytes", _LARGEST_CONSTANT + 1) > _LARGEST_CONSTANT:
        return ""
    try:
        return hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:16]
    except Exception:  # deleted or donated meanwhile, or of a type that NumPy lacks
        return ""
