"""The flags of XLA that this process was started with: others compile another program."""

import os

# Where files go, and how many devices there are: a capture has both elsewhere.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")


def xla_flags() -> tuple[str, ...]:
    """The flags of XLA_FLAGS that may change a compiled program, without their dashes."""
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-") for word in words if word.startswith("--"))
    return tuple(flag for flag in flags if not flag.startswith(_SILENT))
