"""Reads the flags of XLA_FLAGS that can change a compiled program."""

import os

# Flags of dump files, which change no program, and of the device count, which is in the target.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")


def xla_flags() -> tuple[str, ...]:
    """Returns the flags of XLA_FLAGS that may change a program, without their dashes."""
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-") for word in words if word.startswith("--"))
    return tuple(flag for flag in flags if not flag.startswith(_SILENT))
