<<<<<<< HEAD:jaxlens/stages/compile/process_flags.py
"""The flags of XLA that this process was started with: others compile another program."""

import os

# Where files go, and how many devices there are: a capture has both elsewhere.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")


def xla_flags() -> tuple[str, ...]:
    """The flags of XLA_FLAGS that may change a compiled program, without their dashes."""
=======
"""Reads the flags of XLA_FLAGS that can change a compiled program."""

import os

# Flags of dump files, which change no program, and of the device count, which is in the target.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")


def told() -> tuple[str, ...]:
    """Returns the flags of XLA_FLAGS that may change a program, without their dashes."""
>>>>>>> 80f6f42 (Docstrings of the compile name XLA's dumps, thunks and profile events instead of circumlocutions):jaxlens/stages/compile/flags.py
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-") for word in words if word.startswith("--"))
    return tuple(flag for flag in flags if not flag.startswith(_SILENT))
