"""Saves a capture to one file, which can be loaded without a device, and without JAX.

The jaxpr and StableHLO are saved as modules and text, every other stage as text, which is read on
use. What was unavailable stays so, with the same reason. Equal captures give equal files; measured
times are data of the capture.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from jaxlens.errors import UnavailableError, nearest
from jaxlens.ir.driver import Driver
from jaxlens.ir.fact import KERNELS, SAVED, SOURCES, FactRow, T
from jaxlens.ir.facts import KERNEL_TEXTS, Kernel, Program
from jaxlens.ir.needs import Needs
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.columns import to_columns
from jaxlens.ir.saved.facts import to_json
from jaxlens.ir.text_store import pack, to_bytes

STAGES = ("jaxpr", "stablehlo", "hlo", "passes", "optimized", "llvm", "asm")
AS_COLUMNS = ("jaxpr", "stablehlo")
"""Stages whose text lacks some of what their module has."""
_COMPILED = frozenset({"passes", "optimized", "llvm", "asm"})
# The stages whose texts are packed together.
_GROUPS = {"early": ("jaxpr", "stablehlo"), "hlo": ("hlo", "optimized"), "code": ("llvm", "asm")}
# Fields of a pass and a kernel that the manifest has under their names, whatever their values.
_PASS = ("index", "pipeline", "name", "changed", "before")
_KERNEL = ("name", "instruction", "kind", "note")


def save(
    program: Program,
    driver: Driver,
    path: str | os.PathLike[str],
    *,
    stages: Collection[str] | None = None,
) -> None:
    """Writes a capture to one file; `Capture.save` is the public way here.

    Args:
        program: The captured program.
        driver: The source of its facts: live, or loaded.
        path: The path; an existing file is replaced.
        stages: The stages to save, of jaxpr, stablehlo, hlo, passes, optimized, llvm, asm; by
            default all. They are computed if need be: by default, a compile with passes.

    Raises:
        UnavailableError: There is no stage of such a name.
        CaptureFileError: The file cannot be written.
    """
    chosen = STAGES if stages is None else tuple(stages)
    for name in chosen:
        if name not in STAGES:
            raise UnavailableError(f"no stage {name!r} to save; {nearest(name, STAGES)}")
    saved_file.write(path, parts(program, driver, chosen))


def parts(
    program: Program,
    driver: Driver,
    stages: Collection[str],
    as_columns: Collection[str] = AS_COLUMNS,
) -> dict[str, bytes]:
    """Returns the parts of a file.

    Args:
        program: As for `save`.
        driver: As for `save`.
        stages: The stages to save.
        as_columns: The stages whose modules are saved. StableHLO of which only the text is saved,
            with its locations, takes jaxlib to be read.
    """
    chosen = {"", *stages, *(["compiled"] if _COMPILED.intersection(stages) else [])}
    return _Writer(program, driver, frozenset(chosen), frozenset(as_columns)).parts()


@dataclass
class _Writer:
    """Gathers the parts of a file; see `parts` for the first four."""

    program: Program
    driver: Driver
    chosen: frozenset[str]
    as_columns: frozenset[str]
    missing: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _GROUPS})
    stages: dict[str, int] = field(default_factory=dict)
    modules: dict[str, bytes] = field(default_factory=dict)

    def parts(self) -> dict[str, bytes]:
        needs = Needs("compiled" in self.chosen, "passes" in self.chosen)
        with suppress(UnavailableError):  # what is missing is noted where it is read
            self.driver.gather(needs)
        passes = list(self._passes())
        for group, names in _GROUPS.items():
            for name in names:
                self._stage(name, self.texts[group])
        # A saved capture cannot find these deviations by tracing.
        deviations = (*self.program.deviations, *self.driver.deviations())
        manifest = {
            "format": saved_file.FORMAT,
            "version": saved_file.VERSION,
            "program": to_json(replace(self.program, deviations=deviations)),
            "stages": self.stages,
            "passes": passes,
            "kernels": [self._kernel(kernel) for kernel in self._fact(KERNELS) or ()],
            "facts": dict(self._facts()),
            "missing": self.missing,
        }
        if texts := sorted(set(AS_COLUMNS) - self.as_columns):
            manifest["read_from_text"] = texts
        return {
            **self.modules,
            "sources.json": _dumped(self._sources()),  # may be missing
            "manifest.json": _dumped(manifest),
            **{f"{group}.bin": to_bytes(pack(texts)) for group, texts in self.texts.items()},
        }

    def _fact(self, row: FactRow[T]) -> T | None:
        return self._ask(row.name, row.stage, lambda: self.driver.fact(row))

    def _ask(self, name: str, stage: str, ask: Callable[[], T]) -> T | None:
        """What is asked, if its stage is saved and it is there; else None, and why is recorded.

        Args:
            name: What files call it.
            stage: The stage that it is saved with; "" for what is always saved.
            ask: Asks the driver.
        """
        if stage not in self.chosen:
            self.missing[name] = (
                f"{name} is not in this file: it was saved without it; save it with stages=[...]"
            )
            return None
        try:
            return ask()
        except UnavailableError as error:
            self.missing[name] = str(error)
            return None

    def _stage(self, name: str, texts: list[str]) -> None:
        stage = self._ask(name, name, lambda: self.driver.stage(name))
        if stage is None:
            return
        self.stages[name] = len(texts)
        texts.append(stage.raw)
        if name in self.as_columns:
            self.modules[f"{name}.json"] = _dumped(to_columns(stage.module))

    def _sources(self) -> Any:
        return to_json(self._fact(SOURCES) or {})

    def _passes(self) -> Iterator[dict[str, Any]]:
        for dump in self._ask("passes", "passes", lambda: self.driver.passes()) or ():
            row = {name: getattr(dump, name) for name in _PASS}
            yield {**row, "title": dump.stage.title, "text": len(self.texts["hlo"])}
            self.texts["hlo"].append(dump.stage.raw)

    def _kernel(self, kernel: Kernel) -> dict[str, Any]:
        row = {name: getattr(kernel, name) for name in _KERNEL}
        if kernel.launch:
            row["launch"] = kernel.launch
        for key in KERNEL_TEXTS:
            if (key if key == "asm" else "llvm") in self.chosen and (text := getattr(kernel, key)):
                row[key] = len(self.texts["code"])
                self.texts["code"].append(text)
        return row

    def _facts(self) -> Iterator[tuple[str, Any]]:
        row: FactRow[Any]
        for row in SAVED:
            if row.costs and row.name not in self.driver.recorded():
                continue
            fact: Any = self._fact(row)
            if fact is not None:
                yield row.name, to_json(fact)


def _dumped(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
