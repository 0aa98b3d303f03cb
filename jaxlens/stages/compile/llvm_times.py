"""Computes the seconds that LLVM takes for each kernel from the modification times of the dumps.

XLA's profiler does not say which kernel LLVM compiles. But XLA:CPU compiles one LLVM module per
kernel in one thread, and writes three files on the way: just before LLVM's passes, just after
them, and just after code generation. Their modification times give the seconds, with a resolution
of some milliseconds on some systems, and include the writing of the files. On GPU the three files
of a kernel have different names, so there are no parts. Checked with jax 0.10.2 and 0.12.0.1.
"""

from collections.abc import Iterator

from jaxlens.ir.facts import Part
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import symbols_of


def llvm_parts(dump: Dump) -> Iterator[Part]:
    """Yields two parts for each kernel: LLVM's passes, and machine code generation."""
    names: dict[str, str] = {}
    for symbol, unit in symbols_of(dump) if dump.written else ():
        names.setdefault(unit, symbol)
    for unit, (begun, optimised, done) in dump.written.items():
        if unit in names and begun <= optimised <= done:
            yield Part(names[unit], "llvm", (optimised - begun) * 1e-9, aside=True)
            yield Part(names[unit], "code", (done - optimised) * 1e-9, aside=True)
