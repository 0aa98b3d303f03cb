"""The program of a record, completed with what follows from its stages.

The job that recorded it spent no time on these: the list of kernels is read from the optimised
program, and HLO before optimisation is converted from StableHLO.
"""

import re
from functools import cached_property
from typing import Any, cast

from jaxlens import compat
from jaxlens.compat.lowering import hlo_text
from jaxlens.errors import LensError, UnavailableError, first_line
from jaxlens.ir.fact import KERNELS, FactRow, T
from jaxlens.ir.facts import Kernel, Stage
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.record import RECORD
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.file import Archive
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stablehlo.types import type_of
from jaxlens.ir.stage import BY_NAME
from jaxlens.report import total
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import kernels, without_code

_ELIDED = re.compile(r"dense_resource<__elided__> : (tensor<[^<>]*(?:<[^<>]*>)?>)")
_LARGEST = 64 << 20  # bytes of constants that are made up


class ProgramOfRecord(SavedDriver):
    """The driver of a saved capture whose file may lack what can be made of its stages."""

    holder = "a saved capture"

    def __init__(self, archive: Archive, manifest: dict[str, Any]) -> None:
        super().__init__(archive, manifest)
        if self.program.origin == f"read from {RECORD}":
            self.holder = RECORD

    def fact(self, row: FactRow[T]) -> T:
        try:
            return super().fact(row)
        except UnavailableError:
            if row.name != KERNELS.name or "optimized" not in self._numbers:
                raise
            return cast(T, self._listed)

    @cached_property
    def _listed(self) -> tuple[Kernel, ...]:
        module = self.stage("optimized").module
        rows = kernels(module, Dump(), self.program.target.platform)
        return without_code(rows, f"{self.holder} does not hold its code")

    def stage(self, name: str) -> Stage:
        if name == "hlo" and "hlo" not in self._numbers and "stablehlo" in self._numbers:
            return self._converted
        return super().stage(name)

    @cached_property
    def _converted(self) -> Stage:
        try:
            written = _filled(super().stage("stablehlo").raw)
            tried(written)
            computation = compat.to_hlo(stablehlo.parse(written))
        except (LensError, RuntimeError, ValueError) as error:
            computation, why = None, f" ({first_line(error)})"
        else:
            why = ""
        if computation is None:
            raise UnavailableError(
                f"{self.holder} holds no HLO before optimisation, and its StableHLO does not "
                f"convert{why}; look at the call itself"
            )
        text = hlo_text(computation.as_hlo_module())
        frames = self._origins
        return Stage(
            BY_NAME["hlo"], lambda: text, lambda: hlo.read(text, stage="hlo", origins=frames)
        )


def _filled(text: str) -> str:
    """Returns StableHLO with other values in the place of the constants that are left out.

    HLO text leaves the values of such constants out as well, so it is the text of the program.

    Raises:
        ValueError: They are of a type that is not known, or too large.
    """
    sizes = {written: type_of(written).bytes for written in _ELIDED.findall(text)}
    whole = total(sizes[written] for written in _ELIDED.findall(text))
    if whole is None or whole > _LARGEST:
        raise ValueError(f"its constants have more than {_LARGEST >> 20} MiB")
    # Not one number throughout, which would become a broadcast.
    return _ELIDED.sub(lambda m: f'dense<"0x01{"00" * ((sizes[m[1]] or 1) - 1)}"> : {m[1]}', text)
