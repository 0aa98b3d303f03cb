"""An executable of XLA, without the function that JAX compiled it for."""

from functools import cached_property
from typing import Any


class LoadedExecutable:
    """A loaded executable with those methods of `jax.stages.Compiled` that jaxlens uses."""

    output_shardings = ()

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def runtime_executable(self) -> Any:
        """Returns the loaded executable of XLA."""
        return self._loaded

    def as_text(self) -> str:
        """Returns the text of the optimised HLO."""
        return "\n\n".join(module.to_string() for module in self._loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's cost analysis."""
        return dict(self._loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """Returns XLA's memory statistics, in bytes."""
        return self._memory_stats

    @cached_property
    def _memory_stats(self) -> Any:  # a large program's take a tenth of a second
        return self._loaded.get_compiled_memory_stats()
