"""The files of a job's record: one folder per process, and the programs that all share.

runs/a/process-0-HOST-PID/process.json    what the process is, written again as it goes on
runs/a/process-0-HOST-PID/000001.json     one compile
runs/a/programs/DIGEST.jaxlens            a program, as `Capture.save` writes it

Each file is written whole or not at all, and none is changed by another process while its own
lives. Two processes that compile the same program write the same file, whichever is first.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from jaxlens.errors import CaptureFileError
from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile, RecordedProcess
from jaxlens.ir.saved.facts import from_json, to_json
from jaxlens.ir.saved.file import write_whole
from jaxlens.reading import read_json

SUFFIX = ".jaxlens"
_PROGRAMS = "programs"
_PROCESS = "process.json"
_COMPILE = re.compile(r"\d{6,9}\.json")
_FOLDER = re.compile(r"process-(\d{1,9})-(.*)-(\d{1,12})(?:-\d+)?$")
_MOST = 64 << 20  # bytes of memory of one file: a thousand times those of a compile
# Of processes and compiles, in older records.
_OLD = ("delays", "gone", "left_out", "operations", "parts_left_out", "key_digest")
_BAD = (TypeError, ValueError, KeyError, AttributeError, RecursionError, OverflowError)
T = TypeVar("T")


class ProcessFolder:
    """The folder that one process writes into."""

    def __init__(self, root: Path, index: int, host: str, pid: int) -> None:
        """Makes the folder, of a name that no other process has.

        Raises:
            OSError: It cannot be made.
        """
        self.programs = root / _PROGRAMS
        self.programs.mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^\w.-]", "_", host)[:60]
        for attempt in count(1):  # process ids come again
            again = f"-{attempt}" if attempt > 1 else ""
            self.path = root / f"process-{index}-{plain}-{pid}{again}"
            with suppress(FileExistsError):
                self.path.mkdir()
                return

    def write_process(self, process: RecordedProcess) -> None:
        """Writes what the process is."""
        write_whole(self.path / _PROCESS, _dumped(process))

    def write_compile(self, compile: RecordedCompile) -> None:
        """Writes one compile."""
        write_whole(self.path / f"{compile.number:06}.json", _dumped(compile))

    def has_program(self, name: str) -> bool:
        """Whether a program is there, written by this process or another."""
        return (self.programs / f"{name}{SUFFIX}").exists()

    def write_program(self, name: str, data: bytes) -> None:
        """Writes a program."""
        write_whole(self.programs / f"{name}{SUFFIX}", data)


def _dumped(value: Any) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def program_path(root: Path, name: str) -> Path:
    """Returns the path of a program's file."""
    return root / _PROGRAMS / f"{name}{SUFFIX}"


def recorded_compiles(root: Path, is_meant: Callable[[dict[str, Any]], bool]) -> int:
    """Returns the number of compiles of the processes that are meant; there may be no record.

    Args:
        root: The folder of the record.
        is_meant: Whether a process is, by the content of its file.
    """
    meant = (f.parent for f in root.glob(f"process-*/{_PROCESS}") if _is_meant(f, is_meant))
    return sum(1 for folder in meant for _ in _compile_files(folder))


def _compile_files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.iterdir() if _COMPILE.fullmatch(file.name))


def _is_meant(process: Path, is_meant: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        return is_meant(read_json(process, _MOST))
    except (OSError, *_BAD):
        return False


def read_job(path: str | os.PathLike[str]) -> JobRecord:
    """Reads the record of a job, also while it goes on.

    Raises:
        CaptureFileError: The folder is no record.
    """
    root = Path(path)
    folders = sorted(folder for folder in root.glob("process-*") if _FOLDER.match(folder.name))
    if not folders:
        what = "a folder without records" if root.is_dir() else "no such folder"
        what, folder = ("a file", "runs/a") if root.is_file() else (what, path)
        cure = f"jaxlens record -o {folder} train.py makes one"
        if any(root.glob("module_*")):
            what = "a folder of XLA's dumps"
            cure = f"jaxlens explore {path} opens its largest program"
        raise CaptureFileError(
            f"expected the folder of a record, got {str(path)!r}, {what}: {cure}"
        )
    processes = list(map(_read_process, folders))
    processes.sort(key=lambda p: (p.process.index, p.process.started))
    programs = (root / _PROGRAMS).glob(f"*{SUFFIX}")
    names = frozenset(p.name.removesuffix(SUFFIX) for p in programs if not p.name.startswith("."))
    return JobRecord(str(path), tuple(processes), names)


def _read_process(folder: Path) -> ProcessRecord:
    damaged: list[str] = []
    parts = _FOLDER.match(folder.name)
    index, host, pid = parts.groups() if parts else ("0", "", "0")
    named = RecordedProcess(int(index), 1, host, int(pid), 0.0)
    process = None
    if (folder / _PROCESS).exists():  # it is written first, unless the disk was full
        process = _read(RecordedProcess, folder / _PROCESS, damaged)
    try:
        files = sorted(_compile_files(folder))
    except OSError:  # it is a file, or may not be read
        files, damaged = [], [folder.name]
    compiles = [_read(RecordedCompile, file, damaged) for file in files]
    return ProcessRecord(
        folder.name, process or named, tuple(filter(None, compiles)), tuple(damaged)
    )


def _read(kind: type[T], file: Path, damaged: list[str]) -> T | None:
    """Reads one file; None for one that is damaged, which is noted."""
    try:
        data = read_json(file, _MOST)
        known = {name: value for name, value in data.items() if name not in _OLD}
        return from_json(kind, known)
    except (OSError, *_BAD):
        damaged.append(file.name)
        return None
