"""The files of a job's record: a folder for each process, which no other process writes into.

runs/a/process-0-HOST-PID/process.json      what the process is, written again at its end
runs/a/process-0-HOST-PID/compiles.jsonl    its compiles, a line each
runs/a/process-0-HOST-PID/programs.bin      its programs and source texts, each at a compile's place

The last two only grow. To append costs a twentieth of a new file: a job may compile small programs
alone. A line begins with its newline, so that what a killed process or a full disk cut off leaves
the next line whole. A program is the parts of a saved capture, which becomes one when it is read.
"""

import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate, count, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from jaxlens.errors import CaptureFileError
from jaxlens.ir.record import JobRecord, Place, ProcessRecord, RecordedCompile, RecordedProcess
from jaxlens.ir.saved.facts import from_json, to_json
from jaxlens.ir.saved.file import LARGEST_FILE, LARGEST_PART, Archive, packed, write_whole
from jaxlens.reading import parsed, read_file, read_json

_PROCESS, _COMPILES, _PROGRAMS = "process.json", "compiles.jsonl", "programs.bin"
_SOURCES = "sources.json"
_OLDER = re.compile(r"\d{6,9}\.json")  # a compile, when each was a file
_FOLDER = re.compile(r"process-(\d{1,9})-(.*)-(\d{1,12})(?:-\d+)?$")
_MOST = 64 << 20  # bytes of memory of one file: a thousand times those of a compile
_LARGEST_LOG = 1 << 30
_PLAIN = 1 << 16  # bytes of a program that is not compressed
_LEVEL = 4  # of compression: 9 takes five times as long for a tenth less
_BAD = (TypeError, ValueError, KeyError, AttributeError, RecursionError, OverflowError)
T = TypeVar("T")


class ProcessFolder:
    """The folder that one process writes into."""

    def __init__(self, root: Path, index: int, host: str, pid: int) -> None:
        """Makes the folder, of a name that no other process has.

        Raises:
            OSError: It cannot be made.
        """
        self._streams: dict[str, BinaryIO] = {}
        root.mkdir(parents=True, exist_ok=True)
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
        self._append(_COMPILES, b"\n" + _dumped(compile))

    def write_program(self, parts: Mapping[str, bytes]) -> Place:
        """Writes the parts of a program; the text of a source is the place of the true one."""
        head = json.dumps({name: len(part) for name, part in parts.items()})
        data = b"\n".join((head.encode(), b"".join(parts.values())))
        return self._append(_PROGRAMS, data if len(data) < _PLAIN else zlib.compress(data, _LEVEL))

    def write_source(self, text: str) -> str:
        """Writes a text that several programs refer to; returns its place as text."""
        return json.dumps(self._append(_PROGRAMS, text.encode())) if text else ""

    def _append(self, name: str, data: bytes) -> Place:
        """Appends to a file; what is there is in the operating system's hands when it returns."""
        if name not in self._streams:
            self._streams[name] = (self.path / name).open("ab", buffering=0)
        stream = self._streams[name]
        start = stream.seek(0, os.SEEK_END)
        if stream.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return start, len(data)

    def close(self) -> None:
        """Closes the files; the folder may be written into again."""
        for name in list(self._streams):
            self._streams.pop(name).close()

    def __del__(self) -> None:
        self.close()


def _dumped(value: Any) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def is_record(path: Path) -> bool:
    """Whether a folder is the record of a job."""
    return any(_FOLDER.match(folder.name) for folder in path.glob("process-*"))


def read_program(job: JobRecord, name: str) -> Archive:
    """Returns a program of a record as a saved capture.

    Raises:
        CaptureFileError: The record has none of this name, or it is damaged.
    """
    try:
        folder, place = job.programs[name]
        file = Path(job.name) / folder / _PROGRAMS
        data = read_file(file, LARGEST_FILE, *place)
        if data[:1] != b"{":
            data = zlib.decompressobj().decompress(data, LARGEST_PART)
        head, _, body = data.partition(b"\n")
        lengths = parsed(head, _MOST)
        bounds = pairwise(accumulate(lengths.values(), initial=0))
        parts = {part: body[slice(*pair)] for part, pair in zip(lengths, bounds, strict=True)}
        if _SOURCES in parts:
            sources = parsed(parts[_SOURCES], _MOST)
            for source in sources.values():
                if source["text"]:
                    at = json.loads(source["text"])
                    source["text"] = read_file(file, LARGEST_FILE, *at).decode()
            parts[_SOURCES] = json.dumps(sources).encode()
    except (OSError, zlib.error, *_BAD) as error:
        raise CaptureFileError(
            f"cannot read the program {name[:40]!r} of the record {job.name}: "
            f"{type(error).__name__}; jaxlens show {job.name} lists those that it has"
        ) from None
    return Archive(packed(parts), f"a program of the record {job.name}")


def recorded_compiles(root: Path, is_meant: Callable[[dict[str, Any]], bool]) -> int:
    """Returns the number of compiles of the processes that are meant; there may be no record.

    Args:
        root: The folder of the record.
        is_meant: Whether a process is, by the content of its file.
    """
    meant = (f.parent for f in root.glob(f"process-*/{_PROCESS}") if _is_meant(f, is_meant))
    logs = filter(Path.exists, (folder / _COMPILES for folder in meant))
    return sum(read_file(log, _LARGEST_LOG).count(b"\n") for log in logs)


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
    if any(_OLDER.fullmatch(file.name) for file in folders[0].glob("*.json")):
        raise CaptureFileError(
            f"expected the record of this version of jaxlens, got {str(path)!r} of an older one: "
            "record the job again"
        )
    processes = list(map(_read_process, folders))
    processes.sort(key=lambda p: (p.process.index, p.process.started))
    programs = {
        compile.program: (process.folder, compile.place)
        for process in reversed(processes)
        for compile in reversed(process.compiles)
        if compile.place
    }
    return JobRecord(str(path), tuple(processes), programs)


def _read_process(folder: Path) -> ProcessRecord:
    damaged: list[str] = []
    parts = _FOLDER.match(folder.name)
    index, host, pid = parts.groups() if parts else ("0", "", "0")
    named = RecordedProcess(int(index), 1, host, int(pid), 0.0)
    process = None
    lines: list[bytes] = []
    try:
        if (folder / _PROCESS).exists():  # it is written first, unless the disk was full
            process = _read(RecordedProcess, read_file(folder / _PROCESS, _MOST), _PROCESS, damaged)
        if (folder / _COMPILES).exists() or not folder.is_dir():
            lines = read_file(folder / _COMPILES, _LARGEST_LOG).split(b"\n")[1:]
    except OSError as error:
        damaged.append(Path(error.filename or folder).name if folder.is_dir() else folder.name)
    numbered = ((line, f"{_COMPILES}:{n}") for n, line in enumerate(lines, 2) if line)
    compiles = [_read(RecordedCompile, line, name, damaged) for line, name in numbered]
    if lines and compiles[-1] is None and not lines[-1].endswith(b"}"):
        damaged.pop()  # it was being written
    return ProcessRecord(
        folder.name, process or named, tuple(filter(None, compiles)), tuple(damaged)
    )


def _read(kind: type[T], data: bytes, name: str, damaged: list[str]) -> T | None:
    """Reads JSON; None for what is damaged, which is noted."""
    try:
        return from_json(kind, parsed(data, _MOST))
    except _BAD:
        damaged.append(name)
        return None
