"""Reads the memory statistics of a compiled program, which XLA's buffer assignment computes."""

from typing import Any

from jaxlens.ir.facts import Memory

_HOST = "host memory is not counted"


def memory(executable: Any) -> Memory:
    """Reads `memory_analysis()` of a `jax.stages.Compiled`; sizes in bytes, per device.

    `aliases` are bytes of arguments whose buffers are reused for outputs (donation); XLA counts
    them among the arguments and among the outputs too.
    """
    try:
        stats = executable.memory_analysis()
    except Exception as error:
        return Memory(None, None, None, None, note=f"not given by this backend: {_line(error)}")
    if stats is None:
        return Memory(None, None, None, None, note="not given by this backend")
    if isinstance(stats, (list, tuple)):
        stats = stats[0]
    return Memory(
        arguments=_size(stats, "argument_size_in_bytes"),
        outputs=_size(stats, "output_size_in_bytes"),
        temporaries=_size(stats, "temp_size_in_bytes"),
        aliases=_size(stats, "alias_size_in_bytes"),
        # XLA:CPU reports 0 for an unknown size.
        code=_size(stats, "generated_code_size_in_bytes") or None,
        note=_note(stats),
        peak=_size(stats, "peak_memory_in_bytes"),
    )


def _size(stats: Any, name: str) -> int | None:
    value = getattr(stats, name, None)
    return None if value is None or value < 0 else int(value)


def _note(stats: Any) -> str:
    host = any(
        _size(stats, f"host_{n}_size_in_bytes") for n in ("argument", "output", "temp", "alias")
    )
    return _HOST if host else ""


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
