"""What XLA is asked to write about a compile: which passes, and which code."""

import jax

from jaxlens.ir.driver import Passes

# The passes that make fusions have it in their names, but for CPU's library rewriter.
_FUSING = "fusion|dot-library-rewriter"
_SMALL = 60_000  # characters of StableHLO, up to which dumps of all passes cost next to nothing


def dumped_passes(passes: Passes, length: int) -> bool | str:
    """The passes to dump: all, none, or those whose names match an expression.

    Args:
        passes: What the questions need.
        length: Characters of the program's StableHLO.
    """
    if passes != "fusing":
        return passes == "all"
    return length <= _SMALL or _FUSING


def dump_options(path: str, passes: bool | str) -> dict[str, str]:
    """Compiler options that have XLA write into a folder.

    Args:
        path: The folder.
        passes: As `dumped_passes` gives them.
    """
    options = {"xla_dump_to": path}
    if passes:
        options["xla_dump_hlo_pass_re"] = passes if isinstance(passes, str) else ".*"
    if jax.version.__version_info__ >= (0, 11):
        # LLVM IR and PTX come only from the emitters of these names now. Never widen the pattern:
        # the MLIR emitters' dumps end the process ("pure virtual method called" in 0.12.0.1).
        options["xla_dump_emitter_re"] = "^(llvm|ptx)$"
    return options
