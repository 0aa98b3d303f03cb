"""Which of XLA's flags this process was started with: a compile by others is another program."""

import os

# What says where files go, or how many devices there are, which captures tell otherwise.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")


def told() -> tuple[str, ...]:
    """The flags of XLA_FLAGS that may change a compiled program, without their dashes."""
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-") for word in words if word.startswith("--"))
    return tuple(flag for flag in flags if not flag.startswith(_SILENT))
