"""Compiles one lowered call once; adds passes or a profile that the compile did not record.

A compile runs in the background, so that the jaxpr and HLO can be read and drawn meanwhile.
"""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import jax

from jaxlens import compat
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Extra
from jaxlens.ir.facts import Profile, Timing
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.stablehlo.identity import identity
from jaxlens.stages.compile.xla import CompileOutput, RunningCompile
from jaxlens.stages.compile.xla_options import dumped_passes
from jaxlens.stages.measure.instruction_times import NO_GRAPHS
from jaxlens.stages.session.tracing import TracedCall

_SLOW = 2.0  # seconds of a compile that is not made again while an output shows its result
_EARLIER = "by an earlier look at the same program"
# Results by `Compiling._program`: the last one, and slow ones while an output that shows one is
# alive. Those of quick compiles are not shared for as long as that: it is for the garbage collector
# to say, and what is shown must not depend on it.
_last: "dict[object, CompileOutput]" = {}
_slow: "WeakValueDictionary[object, CompileOutput]" = WeakValueDictionary()


def forget() -> None:
    """Forgets all results, so that every program is compiled anew."""
    _last.clear()
    _slow.clear()


class Compiling:
    """Compiles a call lazily, and caches the compiled program and its profile.

    Attributes:
        made: The compiled program; None before the first compile has ended.
        origins: Returns the stack frames of a StableHLO op.
    """

    def __init__(self, staging: TracedCall, origins: Origins) -> None:
        """Stores the call; nothing is compiled yet.

        Args:
            staging: The call.
            origins: Returns the stack frames of a StableHLO op.
        """
        self._staging = staging
        self._times: tuple[Timing, ...] = ()
        self.made: CompileOutput | None = None
        self._running: RunningCompile | None = None
        self.origins = origins
        staging.before_reading = self._converted

    def begin(self, passes: bool = False, profiled: bool = False) -> None:
        """Starts a compile if there is none, and does not wait for it; adds what it did not record.

        Args:
            passes: Whether all passes are needed, not only those that every compile dumps.
            profiled: Whether to record a profile.
        """
        with self._staging.lock:
            running = self._running
            if running is not None and (profiled or (passes and running.passes_asked is not True)):
                self.finish()
            if self._running is not None:
                return
            if self.made is None:
                self._take_over()
            if self.made is None:
                dumped = passes or dumped_passes(len(self._staging.stamps))
                running = self._started(passes=dumped, profiled=profiled)
                # Work beside a compile would lengthen what the profile measures.
                if profiled or not self._for_cpu:
                    self._keep(running.result())
                else:
                    self._running = running
                return
            lacks_passes = passes and self.made.passes_asked is not True
            if profiled and self.made.profile is None:
                self._add_profile(self.made, lacks_passes)
            elif lacks_passes:
                self._add_passes(self.made)

    def _add_profile(self, made: CompileOutput, passes: bool) -> None:
        done = self._again(made, "profile", passes=passes, profiled=True)
        made = (made.with_passes(done.dump) or done) if passes else made
        self._keep(made.with_profile(done.profile))

    def _add_passes(self, made: CompileOutput) -> None:
        """Adds the dumps of all passes; without machine code, if the passes do what they did.

        Raises:
            UnavailableError: The disk is full.
        """
        fast = self._for_cpu and bool(made.dump.pass_names)
        for code in (False, True) if fast else (True,):
            done = self._again(made, "passes", passes=True, code=code)
            if done.dump.lost:
                raise UnavailableError(done.dump.lost)
            if (whole := made.with_passes(done.dump)) or done.executable is not None:
                self._keep(whole or done)
                return

    @property
    def _for_cpu(self) -> bool:
        return self._staging.place.target.platform == "cpu"

    def _program(self) -> object:
        """Identifies the program with its call in this process; None if its result is not shared.

        The module has all that is compiled, but for compiler options.
        Arrays in the closure may be arguments that the module does not show, and one of several
        devices may run it.
        """
        staging, target = self._staging, self._staging.place.target
        if target.absent or not staging.is_whole or jax.device_count() > 1:
            return None
        lowered = staging.lowered
        options = compat.options_of(lowered)
        if options is None:
            return None
        settings: Any = jax.config
        trees = lowered.in_tree, lowered.out_tree
        call = (*trees, str(lowered.in_avals), staging.call.name, options)
        return self._module, str(call), str(target), str(sorted(settings.values.items()))

    @cached_property
    def _module(self) -> object:
        """Identifies the lowered module."""
        return identity(self._staging.lowered.compiler_ir("stablehlo"))

    def _take_over(self) -> None:
        """Takes the result of an earlier capture of the same program, if there is one."""
        if not (_last or _slow):
            return
        program = self._program()
        done = _last.get(program) or _slow.get(program) if program is not None else None
        if done is None:
            return
        is_empty = done.profile is not None and not done.profile.parts
        self.made = done.with_profile(None) if is_empty else done
        self._times += tuple(replace(t, note=f"{t.note}; {_EARLIER}") for t in done.times[:1])

    def finish(self) -> None:
        """Waits for the running compile, if there is one."""
        with self._staging.lock:
            if self._running is not None and not self._running.done():
                with suppress(Exception):  # it fails again where it is used
                    _ = self._module
            running, self._running = self._running, None
            if running is not None:
                self._keep(running.result())

    def abandon(self) -> None:
        """Leaves the running compile to end in the background."""
        running, self._running = self._running, None
        if running is not None:
            running.abandon()

    def compiled(self, passes: bool = False, profiled: bool = False) -> CompileOutput:
        """Returns the compiled program; see `begin` for the arguments."""
        with self._staging.lock:
            self.begin(passes, profiled)
            self.finish()
            assert self.made is not None
            return self.made

    def hlo(self, passes: bool = False) -> CompileOutput:
        """Returns the program's HLO; from a running compile, as soon as XLA has written it.

        The caller that started that compile waits for its end. A compile that starts here is waited
        for, since it would run beside the user's own calls, without the persistent cache for them.
        """
        with self._staging.lock:
            begun = self._running
            self.begin(passes)
            early = begun.hlo() if begun is not None and self._running is begun else None
            return early or self.compiled(passes)

    @property
    def begun(self) -> bool:
        """Whether a compile has begun."""
        return self._running is not None or self.made is not None

    def _converted(self) -> None:
        if self._running is not None:
            self._running.converted()

    def _keep(self, made: CompileOutput) -> None:
        if self.made is None:
            self._times += made.times
        self.made = made
        program = self._program() if not made.dump.lost else None  # the disk may have room later
        if program is not None:
            _last.clear()
            _last[program] = made
            if made.times[0].seconds > _SLOW:
                _slow[program] = made

    def _started(self, **options: Any) -> RunningCompile:
        staging = self._staging
        lowered = staging.lowered
        with staging.as_called():
            return RunningCompile(lowered, name=staging.call.name, origins=self.origins, **options)

    def _again(self, made: CompileOutput, wanted: str, **options: Any) -> CompileOutput:
        """Compiles once more, for what an earlier compile did not record."""
        seconds = made.times[0].seconds
        took = f" (the first compile took {seconds:.0f} s)" if seconds > _SLOW else ""
        done = self._started(again=f"again, for its {wanted}{took}", **options).result()
        for timing in done.times:
            note = "; ".join(filter(None, (timing.note, f"a second time, for the {wanted}")))
            self._times += (replace(timing, note=note),)
        return done

    def profile(self) -> Profile:
        """Returns XLA's profile of a compile; compiles again if none was recorded."""
        profile = self.compiled(profiled=True).profile
        assert profile is not None
        return profile

    def without_graphs(self) -> CompileOutput:
        """Compiles the program once more, for a GPU that launches each kernel by itself."""
        staging = self._staging
        again = "again, to measure its kernels one by one"
        with staging.lock, staging.as_called():
            return RunningCompile(
                staging.lowered,
                name=staging.call.name,
                flags=NO_GRAPHS,
                again=again,
            ).result()

    @property
    def times(self) -> tuple[Timing, ...]:
        """Seconds of the steps of all compiles so far; waits for the running one."""
        self.finish()
        return self._times

    def recorded(self) -> frozenset[Extra]:
        """Returns the extras that the compiles so far have recorded, or are about to."""
        made, last = self.made, self._running or self.made
        at_hand: dict[Extra, bool] = {
            "passes": last is not None and last.passes_asked is True,
            "fusion_log": made is not None and bool(made.dump.fusion_log),
            "profile": made is not None and made.profile is not None,
        }
        return frozenset(extra for extra, is_recorded in at_hand.items() if is_recorded)
