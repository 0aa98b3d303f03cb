"""A live driver for an existing Traced, Lowered, StableHLO module or unoptimised HLO."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from jaxlens.ir.driver import Attempt, Variant
from jaxlens.ir.facts import Source, Stage
from jaxlens.ir.hlo.frames import origins
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.existing.kept_staging import ExistingTrace
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.program_stages import stablehlo_stage
from jaxlens.stages.trace import sources


class KeptDriver(LiveDriver):
    """Makes the later stages of an existing program; raises for facts that need a call.

    Args:
        staging: The existing trace or lowering.
        given: Stages that exist as text, used instead of making them.
        missing: Names of the earlier stages that do not exist, with their noun for the message.
    """

    def __init__(
        self,
        staging: ExistingTrace,
        given: Mapping[str, Stage] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(staging)
        if missing and "stablehlo" in missing:  # converted to compile it; its ops are not shown
            made = origins(lambda: stablehlo_stage(staging).module)
            self.compiling = Compiling(staging, made, self._forget_lowered)
        self.holder, self.cure = staging.holder, staging.cure
        self._stages.update(given or {})
        self._missing = dict(missing or {})

    def stage(self, name: str) -> Stage:
        if name in self._missing:
            self.lacks(self._missing[name])
        return super().stage(name)

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        first = next(n for n in ("jaxpr", "stablehlo", "hlo") if n not in self._missing)
        return sources.sources(self.stage(first).module)

    def rungs(self) -> tuple[Variant, ...]:
        self.lacks("Python function, of whose transforms a ladder could be made")

    def checkpointed(self) -> Iterator[Attempt[Variant]]:
        yield self.lacks("Python function, which could be traced under jax.checkpoint")
