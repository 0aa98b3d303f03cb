"""The compiles of one lowered call: one, and one more for what the first was not asked for."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from jaxlens.ir.facts import PassStage, Profile, Timing
from jaxlens.ir.hlo_frames import Origins
from jaxlens.stages.compile import Compiled, compile_lowered
from jaxlens.stages.staging import Staging


class Compiling:
    """What was compiled of a call, each kind of it once.

    Attributes:
        made: The compiled program, if there is one already.
        times: Seconds of the compiles made so far.
        origins: Gives the frames of the program's ops.
    """

    def __init__(self, staging: Staging, origins: Origins) -> None:
        self._staging = staging
        self._profile: Profile | None = None
        self.origins = origins
        self.made: Compiled | None = None
        self.times: tuple[Timing, ...] = ()

    def compiled(self, passes: bool | str = False) -> Compiled:
        """The compiled program; made once, and once more if passes are wanted and missing."""
        with self._staging.lock:
            if self.made is None or not self.made.gives(passes):
                self.made = self._compile("passes", passes=passes)
            return self.made

    def _compile(self, what: str, **asked: Any) -> Compiled:
        """Compiles, for `what` if it was done before.

        (`compile_lowered` says what can be asked.)
        """
        staging, again = self._staging, self.made is not None
        done = compile_lowered(
            staging.lowered, name=staging.call.name, origins=self.origins, **asked
        )
        self.times += tuple(_again(t, what) if again else t for t in done.times)
        return done

    @cached_property
    def passes(self) -> tuple[PassStage, ...]:
        """Dumps of all passes that changed something."""
        return self.compiled(passes=True).passes

    @property
    def has_all_passes(self) -> bool:
        """Whether the compile that was made dumped every pass."""
        return self.made is not None and self.made.passes_asked is True

    def profile(self) -> Profile:
        """What a compile spent its time on."""
        with self._staging.lock:
            if self._profile is None:
                done = self._compile("profile", profiled=True)
                self.made = self.made or done
                assert done.profile is not None  # asked for
                self._profile = done.profile
            return self._profile

    @property
    def has_profile(self) -> bool:
        """Whether a compile was profiled already."""
        return self._profile is not None


def _again(timing: Timing, what: str) -> Timing:
    """Says that a step was done twice, because something was asked for late."""
    words = f"a second time, for the {what}"
    return replace(timing, note=f"{timing.note}; {words}" if timing.note else words)
