"""Seconds that LLVM spent on each kernel, from the times at which XLA wrote its dumps.

XLA's profiler names no kernel of those that LLVM works on. But XLA:CPU hands LLVM a module for each
kernel, works on it in one thread, and writes three files on the way: just before LLVM's passes,
just after them, and just after the machine code was made. So the file system's clock holds the
times, some milliseconds coarse on some systems, and writing the files is in them. On GPU the files
have other names each time, and nothing is said. Seen with jax 0.10.2 and 0.12.0.1.
"""

from collections.abc import Iterator

from jaxlens.ir.facts import Part
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import symbols_of


def llvm_parts(dump: Dump) -> Iterator[Part]:
    """Two parts for each kernel: LLVM's passes, and the making of machine code."""
    names: dict[str, str] = {}
    for symbol, unit in symbols_of(dump) if dump.written else ():
        names.setdefault(unit, symbol)
    for unit, (begun, optimised, done) in dump.written.items():
        if unit in names and begun <= optimised <= done:
            yield Part(names[unit], "llvm", (optimised - begun) * 1e-9, aside=True)
            yield Part(names[unit], "code", (done - optimised) * 1e-9, aside=True)
