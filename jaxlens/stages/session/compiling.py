"""Compiles one lowered call once, and again only for passes or a profile not yet recorded.

A compile runs in the background, so that the jaxpr and HLO can be read and drawn meanwhile.
"""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import jax

from jaxlens import compat
from jaxlens.ir.driver import Extra
from jaxlens.ir.facts import Profile, Timing
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.stablehlo.identity import identity
from jaxlens.stages.compile.xla import CompileOutput, RunningCompile
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
        self._profile: Profile | None = None
        self._times: tuple[Timing, ...] = ()
        self.made: CompileOutput | None = None
        self._lacking: CompileOutput | None = None  # an earlier look's, without what is needed
        self._running: RunningCompile | None = None
        self.origins = origins
        staging.before_reading = self._converted

    def begin(self, passes: bool | str = False, profiled: bool = False) -> None:
        """Starts a compile if passes or the profile are missing, and does not wait for it.

        Args:
            passes: The passes to dump; see `RunningCompile`.
            profiled: Whether to record a profile.
        """
        with self._staging.lock:
            if self._running is not None and not (self._running.gives(passes) and not profiled):
                self.finish()
            if self._running is not None:
                return
            dumps = self.made is None or not self.made.gives(passes)
            profile = profiled and self._profile is None
            if not (dumps or profile) or self._taken_over(passes, profile):
                return
            options = {"passes": dumps and passes, "profiled": profile}
            # Work beside a compile would lengthen what the profile measures.
            alone = profile or self._staging.place.target.platform != "cpu"
            if alone:
                self._keep(self._started(**options).result(), dumps, profile)
            else:
                self._running = self._started(**options)

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

    def _taken_over(self, passes: bool | str, profile: bool) -> bool:
        """Reuses the result of an earlier capture, if it has all that is needed."""
        if self.made is not None or not (_last or _slow):
            return False
        program = self._program()
        done = _last.get(program) or _slow.get(program) if program is not None else None
        lacks = profile and not (done and done.profile and done.profile.parts)
        if done is None or not done.gives(passes) or lacks:
            self._lacking = done
            return False
        self.made, self._profile = done, done.profile
        self._times += tuple(replace(t, note=f"{t.note}; {_EARLIER}") for t in done.times[:1])
        return True

    def finish(self) -> None:
        """Waits for the running compile, if there is one."""
        with self._staging.lock:
            if self._running is not None and not self._running.done():
                with suppress(Exception):  # it fails again where it is used
                    _ = self._module
            running, self._running = self._running, None
            if running is not None:
                self._keep(running.result(), True, False)

    def abandon(self) -> None:
        """Leaves the running compile to end in the background."""
        running, self._running = self._running, None
        if running is not None:
            running.abandon()

    def compiled(self, passes: bool | str = False, profiled: bool = False) -> CompileOutput:
        """Returns the compiled program; compiles again if passes or the profile are missing.

        Args:
            passes: The passes to dump; see `RunningCompile`.
            profiled: Whether to record a profile.
        """
        with self._staging.lock:
            self.begin(passes, profiled)
            self.finish()
            assert self.made is not None
            return self.made

    def hlo(self, passes: bool | str = False) -> CompileOutput:
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

    def _keep(self, done: CompileOutput, dumps: bool, profile: bool) -> None:
        again = "" if self.made is None else "passes" if dumps else "profile"
        why_again = f"a second time, for the {again}" if again else ""
        for timing in done.times:
            note = "; ".join(filter(None, (timing.note, why_again)))
            self._times += (replace(timing, note=note),)
        program = self._program() if dumps else None
        if program is not None:
            _last.clear()
            _last[program] = done
            if done.times[0].seconds > _SLOW:
                _slow[program] = done
        self.made = done if dumps else self.made
        self._profile = done.profile if profile else self._profile

    def _started(self, **options: Any) -> RunningCompile:
        staging = self._staging
        lowered = staging.lowered
        if (before := self.made or self._lacking) is not None:
            wanted = "its profile" if options["profiled"] else "its passes"
            seconds = before.times[0].seconds
            took = f" (the first compile took {seconds:.0f} s)" if seconds > _SLOW else ""
            options["again"] = f"again, for {wanted}{took}"
        with staging.as_called():
            return RunningCompile(lowered, name=staging.call.name, origins=self.origins, **options)

    def profile(self) -> Profile:
        """Returns XLA's profile of a compile; compiles again if none was recorded."""
        self.compiled(profiled=True)
        assert self._profile is not None
        return self._profile

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
        made, running = self.made, self._running
        at_hand: dict[Extra, bool] = {
            "passes": running.gives(True) if running else made is not None and made.gives(True),
            "fusion_log": made is not None and bool(made.dump.fusion_log),
            "profile": self._profile is not None,
        }
        return frozenset(extra for extra, is_recorded in at_hand.items() if is_recorded)
