"""XLA's options: what a compile dumps, the flags of this process, and the names of all flags."""

import mmap
import os
import re
from functools import cache
from pathlib import Path

import jax
import jaxlib

# The passes that make fusions have it in their names, but for CPU's library rewriter.
_FUSING = "fusion|dot-library-rewriter"
_SMALL = 700  # ops of StableHLO, up to which dumps of all passes cost next to nothing
# Flags of dump files, which change no program, and of the device count, which is in the target.
_SILENT = ("xla_dump", "xla_force_host_platform_device_count")
_FLAG = re.compile(rb"\0(xla_[a-z][a-z0-9_]{3,80})\0")


def dumped_passes(ops: int) -> bool | str:
    """Returns the passes that each compile dumps: those that fuse; all of a small program.

    Those that fuse cost a large program 1 % of a compile, all of them 15 %.

    Args:
        ops: The number of the program's StableHLO ops.
    """
    return ops <= _SMALL or _FUSING


def dump_options(path: str, passes: bool | str) -> dict[str, str]:
    """Returns the compiler options that have XLA write into a folder.

    Args:
        path: The folder.
        passes: All, none, or those whose names match a regular expression.
    """
    options = {"xla_dump_to": path}
    if passes:
        options["xla_dump_hlo_pass_re"] = passes if isinstance(passes, str) else ".*"
    if jax.version.__version_info__ >= (0, 11):
        # LLVM IR and PTX come only from the emitters of these names now. Never widen the pattern:
        # the MLIR emitters' dumps end the process ("pure virtual method called" in 0.12.0.1).
        options["xla_dump_emitter_re"] = "^(llvm|ptx)$"
    return options


def xla_flags() -> tuple[str, ...]:
    """Returns the flags of XLA_FLAGS that may change a program, without their dashes."""
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-") for word in words if word.startswith("--"))
    return tuple(flag for flag in flags if not flag.startswith(_SILENT))


@cache
def flag_names() -> tuple[str, ...]:
    """Returns the names of XLA's flags, sorted; empty if jaxlib's libraries cannot be read.

    XLA exposes no list of them to Python; their names are strings in its shared library.
    """
    names: set[str] = set()
    for path in Path(jaxlib.__file__).parent.glob("*.so*"):
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
                names.update(name[1].decode() for name in _FLAG.finditer(m))
        except (OSError, ValueError):
            continue
    return tuple(sorted(names))
