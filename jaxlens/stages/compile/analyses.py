"""XLA's own analyses of a compiled program: memory statistics and costs."""

from typing import Any

from jaxlens.errors import UnavailableError, first_line
from jaxlens.ir.facts import Memory


def memory(executable: Any) -> Memory:
    """Reads `memory_analysis()` of a `jax.stages.Compiled`; sizes in bytes, per device.

    `aliases` are bytes of arguments whose buffers are reused for outputs (donation); XLA counts
    them among the arguments and among the outputs too.
    """
    note = "not given by this backend"
    try:
        stats = executable.memory_analysis()
    except Exception as error:
        stats, note = None, f"{note}: {first_line(error, 200)}"
    if stats is None:
        return Memory(None, None, None, None, note=note)
    kinds = ("argument", "output", "temp", "alias")
    is_on_host = any(_size(stats, f"host_{kind}_size_in_bytes") for kind in kinds)
    return Memory(
        arguments=_size(stats, "argument_size_in_bytes"),
        outputs=_size(stats, "output_size_in_bytes"),
        temporaries=_size(stats, "temp_size_in_bytes"),
        aliases=_size(stats, "alias_size_in_bytes"),
        # XLA:CPU reports 0 for an unknown size.
        code=_size(stats, "generated_code_size_in_bytes") or None,
        note="host memory is not counted" if is_on_host else "",
        peak=_size(stats, "peak_memory_in_bytes"),
    )


def _size(stats: Any, name: str) -> int | None:
    value = getattr(stats, name, None)
    return None if value is None or value < 0 else int(value)


def cost(executable: Any, platform: str) -> dict[str, float]:
    """Returns XLA's cost analysis of a `jax.stages.Compiled`.

    Raises:
        UnavailableError: The backend has none, for example for a device that is not present.
    """
    try:
        figures = executable.cost_analysis()
    except Exception as error:
        raise UnavailableError(f"no cost analysis on {platform}: {first_line(error)}") from None
    if not figures:
        raise UnavailableError(
            f"no cost analysis on {platform}: XLA has none for an empty program, or for a device "
            "that is not here; flops are still counted from the jaxpr"
        )
    return {key: float(figures[key]) for key in sorted(figures)}
