"""Compiles one lowered call once, and again only for passes or a profile not yet recorded."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Extra
from jaxlens.ir.facts import Profile, Timing
from jaxlens.ir.hlo.frames import Origins
from jaxlens.stages.arguments.captured_limits import OverdueError
from jaxlens.stages.compile.xla import CompileOutput, compile_lowered
from jaxlens.stages.session.tracing import TracedCall


class Compiling:
    """Compiles a call lazily, and caches the compiled program and its profile.

    Attributes:
        made: The compiled program; None before the first compile.
        times: Seconds of the steps of all compiles so far.
        origins: Returns the stack frames of a StableHLO op.
    """

    def __init__(
        self, staging: TracedCall, origins: Origins, give_up: Callable[[str], None]
    ) -> None:
        """Stores the call; nothing is compiled yet.

        Args:
            staging: The call.
            origins: Returns the stack frames of a StableHLO op.
            give_up: Called with the reason before a stand-in replaces the lowered program.
        """
        self._staging = staging
        self._give_up = give_up
        self._profile: Profile | None = None
        self.origins = origins
        self.made: CompileOutput | None = None
        self.times: tuple[Timing, ...] = ()

    def compiled(self, passes: bool | str = False, profiled: bool = False) -> CompileOutput:
        """Returns the compiled program; compiles again if passes or the profile are missing.

        Args:
            passes: The passes to dump; see `compile_lowered`.
            profiled: Whether to record a profile.
        """
        with self._staging.lock:
            dumps = self.made is None or not self.made.gives(passes)
            profile = profiled and self._profile is None
            if dumps or profile:
                noun = "passes" if dumps else "profile"
                done = self._compile(noun, passes=dumps and passes, profiled=profile)
                self.made = done if dumps else self.made
                self._profile = done.profile if profile else self._profile
            assert self.made is not None
            return self.made

    def _compile(self, noun: str, **options: Any) -> CompileOutput:
        """Compiles; for a repeated compile, `noun` names the output that it is made for.

        (`compile_lowered` documents the keyword arguments.)
        """
        staging, again = self._staging, self.made is not None
        try:
            done = self._compile_lowered(**options)
        except OverdueError as why:
            if again:
                raise UnavailableError(
                    f"no {noun} of the program with the captured arrays compiled into it: {why}"
                ) from None
            self._give_up(str(why))
            staging.fall_back()
            done = self._compile_lowered(**options)
        why_again = f"a second time, for the {noun}" if again else ""
        for timing in done.times:
            note = "; ".join(filter(None, (timing.note, why_again)))
            self.times += (replace(timing, note=note),)
        return done

    def _compile_lowered(self, **options: Any) -> CompileOutput:
        staging = self._staging
        with staging.as_called():
            return compile_lowered(
                staging.lowered,
                name=staging.call.name,
                origins=self.origins,
                waiting=staging.waiting(),
                **options,
            )

    def profile(self) -> Profile:
        """Returns XLA's profile of a compile; compiles again if none was recorded."""
        self.compiled(profiled=True)
        assert self._profile is not None
        return self._profile

    def recorded(self) -> frozenset[Extra]:
        """Returns the extras that the compiles so far have recorded."""
        at_hand: dict[Extra, bool] = {
            "passes": self.made is not None and self.made.passes_asked is True,
            "fusion_log": self.made is not None and bool(self.made.dump.fusion_log),
            "profile": self._profile is not None,
        }
        return frozenset(extra for extra, is_recorded in at_hand.items() if is_recorded)
