"""Saves a capture to one file, which can be loaded without a device, and without JAX.

The jaxpr and StableHLO are saved as modules and text, every other stage as text, which is read on
use. What was unavailable stays so, with the same reason. Equal captures give equal files; measured
times are data of the capture.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from jaxlens.errors import UnavailableError, nearest
from jaxlens.ir.driver import Driver, Needs
from jaxlens.ir.facts import Kernel, Program
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.columns import to_columns
from jaxlens.ir.saved.driver import EXTRAS, FACTS, METHODS, TEXTS
from jaxlens.ir.saved.facts import to_json
from jaxlens.ir.text_store import pack, to_bytes

T = TypeVar("T")

STAGES = ("jaxpr", "stablehlo", "hlo", "passes", "optimized", "llvm", "asm")
_COMPILED = frozenset({"passes", "optimized", "llvm", "asm"})


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
    saved_file.write(path, _Writer(program, driver, frozenset(chosen)).parts())


class _Writer:
    """Gathers the parts of a file."""

    def __init__(self, program: Program, driver: Driver, chosen: frozenset[str]) -> None:
        self._program = program
        self._driver = driver
        self._chosen = chosen
        self._missing: dict[str, str] = {}
        self._early: list[str] = []
        self._code: list[str] = []
        self._hlo: list[str] = []
        self._stages: dict[str, int] = {}
        self._parts: dict[str, bytes] = {}

    def parts(self) -> dict[str, bytes]:
        compiled = bool(self._chosen & _COMPILED)
        with suppress(UnavailableError):  # what is missing is noted where it is read
            self._driver.gather(Needs(compiled, "all" if "passes" in self._chosen else ""))
        passes = self._passes()
        for name, texts in (
            ("jaxpr", self._early),
            ("stablehlo", self._early),
            ("hlo", self._hlo),
            ("optimized", self._hlo),
            ("llvm", self._code),
            ("asm", self._code),
        ):
            self._stage(name, texts)
        manifest = {
            "format": saved_file.FORMAT,
            "version": saved_file.VERSION,
            "program": to_json(self._whole_program()),
            "stages": self._stages,
            "passes": passes,
            "kernels": self._kernels(),
            "facts": dict(self._facts()),
            "missing": self._missing,
        }
        sources = self._ask("sources", "jaxpr", lambda: dict(self._driver.sources()))
        return {
            **self._parts,
            "manifest.json": _dumped(manifest),
            "sources.json": _dumped(to_json(sources or {})),
            "early.bin": _packed(self._early),
            "hlo.bin": _packed(self._hlo),
            "code.bin": _packed(self._code),
        }

    def _whole_program(self) -> Program:
        """The program with all its deviations, which a saved capture cannot find by tracing."""
        deviations = (*self._program.deviations, *self._driver.deviations())
        return replace(self._program, deviations=deviations)

    def _ask(self, what: str, stage: str, get: Callable[[], T]) -> T | None:
        """A fact, if its stage is saved and it is available; else the reason is recorded."""
        kept = stage in self._chosen or not stage
        if stage == "compiled":
            kept = bool(self._chosen & _COMPILED)
        if not kept:
            self._missing[what] = (
                f"{what} is not in this file: it was saved without it; save it with stages=[...]"
            )
            return None
        try:
            return get()
        except UnavailableError as error:
            self._missing[what] = str(error)
            return None

    def _stage(self, name: str, texts: list[str]) -> None:
        stage = self._ask(name, name, lambda: self._driver.stage(name))
        if stage is None:
            return
        self._stages[name] = len(texts)
        texts.append(stage.raw)
        if name in ("jaxpr", "stablehlo"):
            self._parts[f"{name}.json"] = _dumped(to_columns(stage.module))

    def _passes(self) -> list[dict[str, Any]]:
        passes = self._ask("passes", "passes", lambda: self._driver.passes()) or ()
        rows = []
        for stage in passes:
            rows.append(
                {
                    "index": stage.index,
                    "pipeline": stage.pipeline,
                    "name": stage.name,
                    "changed": stage.changed,
                    "before": stage.before,
                    "title": stage.stage.title,
                    "text": len(self._hlo),
                }
            )
            self._hlo.append(stage.stage.raw)
        return rows

    def _kernels(self) -> list[dict[str, Any]]:
        kernels = self._ask("kernels", "compiled", lambda: self._driver.kernels()) or ()
        return [self._kernel(kernel) for kernel in kernels]

    def _kernel(self, kernel: Kernel) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": kernel.name,
            "instruction": kernel.instruction,
            "kind": kernel.kind,
            "note": kernel.note,
        }
        if kernel.launch:
            row["launch"] = kernel.launch
        for key in TEXTS:
            kept = ("asm" if key == "asm" else "llvm") in self._chosen
            text = getattr(kernel, key) if kept else ""
            if text:
                row[key] = len(self._code)
                self._code.append(text)
        return row

    def _facts(self) -> Iterator[tuple[str, Any]]:
        for name, (_, stage) in FACTS.items():
            method = METHODS.get(name, name)
            if method in EXTRAS - self._driver.recorded():
                continue
            fact = self._ask(name, stage, getattr(self._driver, method))
            if fact is not None:
                yield name, to_json(fact)


def _dumped(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def _packed(texts: list[str]) -> bytes:
    """Packed texts; the archive compresses them."""
    return to_bytes(pack(texts))
