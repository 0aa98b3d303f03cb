"""Parts of saved files, files of other parts, and the sentence that one is refused with."""

import zipfile
from collections.abc import Callable
from pathlib import Path

from jaxlens.captures import load
from jaxlens.errors import CaptureFileError, UnavailableError
from jaxlens.ir.facts import Stage
from jaxlens.ir.saved.save import STAGES
from tests.support.paths import RECORDS

CPU = RECORDS / "mlp_step.cpu.jaxlens"
Parts = dict[str, bytes]


def parts(path: Path = CPU) -> Parts:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, found: Parts, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in found.items():
            archive.writestr(name, data)
    return path


def read_all(path: Path) -> str:
    """Reads all of a file; returns the one line that it is refused with, "" where it is not."""
    said = ""
    try:
        cap = load(path)
        for name in STAGES:
            if name != "passes":
                _read_stage(lambda name=name: cap.stage(name))
        for each in cap.passes[::6]:
            _read_stage(lambda each=each: each.stage)
        for kernel in cap.kernels:
            _ = kernel.llvm_before, kernel.llvm_after, kernel.asm
        for name in ("sources", "outputs", "constants", "memory", "cost", "times", "buffers"):
            try:
                getattr(cap, name)
            except UnavailableError:
                continue
    except (CaptureFileError, UnavailableError) as error:
        said = str(error)
    assert "\n" not in said
    return said


def _read_stage(get: Callable[[], Stage]) -> None:
    try:
        stage = get()
    except UnavailableError:
        return
    _ = stage.text
    for node in stage.module.nodes():
        _ = node.results, node.attrs, node.spans, node.scope
