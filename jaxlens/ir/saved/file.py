"""A saved capture as a file: a zip archive of few, named, bounded parts.

Files are not trusted: nothing is unpacked to disk, the names of parts are fixed, and the memory of
a part is computed from counts of its bytes and checked against the rest of the file's allowance
before it is parsed. Equal parts give equal bytes.
"""

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jaxlens.errors import CaptureFileError
from jaxlens.reading import read_file, size_as_objects

FORMAT = "jaxlens capture"
VERSION = 1
LARGEST_FILE = 256 << 20
LARGEST_PART = 512 << 20
# Bytes of memory that a file may take. Real captures, even repetitive ones, unpack to at most 11
# times their bytes, and take up to 50 times as Python objects once every stage has been read.
# Up to 1 MB the allowance stays below ten times the file and 64 MiB, whatever a file holds.
_BASE, _SLOPE, _SMALL, _SLOPE_OF_LARGE = 16 << 20, 60, 1_000_000, 128
_CHUNK = 1 << 20
_LARGEST_DIRECTORY = 4096  # seven entries take 500 bytes
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NAMES = frozenset(
    "manifest.json sources.json jaxpr.json stablehlo.json early.bin hlo.bin code.bin".split()
)
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError)
_ANY_DAY = (1980, 1, 1, 0, 0, 0)


class Archive:
    """The parts of a saved file, each unpacked on use."""

    def __init__(self, data: bytes, where: str) -> None:
        """Opens the bytes of a file.

        Raises:
            CaptureFileError: They are no archive, or have parts that no capture has.
        """
        self.where = where
        self.size = len(data)
        more = max(0, self.size - _SMALL)
        self._left = _BASE + _SLOPE * (self.size - more) + _SLOPE_OF_LARGE * more
        # The directory's size is in the last 22 bytes, as there is no comment. An entry takes 46
        # bytes of a file and ten times that as an object.
        end = data[-22:]
        if end[:4] == b"PK\x05\x06" and int.from_bytes(end[12:16], "little") > _LARGEST_DIRECTORY:
            raise self.wrong("holds more parts than a capture has")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            infos = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            raise self.wrong("not a zip archive") from None
        names = [info.filename for info in infos]
        if len(set(names)) != len(names) or not set(names) <= _NAMES:
            raise self.wrong(
                f"holds parts that no capture has ({[name[:40] for name in names[:3]]!r} ...)"
            )
        if any(info.file_size > LARGEST_PART for info in infos):
            raise self.wrong(f"a part is larger than {LARGEST_PART >> 20} MiB")
        if any(info.compress_type not in _METHODS for info in infos):
            raise self.wrong("a part is packed in a way that no capture is")
        self._sizes = {info.filename: info.file_size for info in infos}
        self.names = frozenset(names)

    def wrong(self, reason: str) -> CaptureFileError:
        """The error to raise for this file."""
        return CaptureFileError(
            f"expected a file that jaxlens.Capture.save wrote, got {self.where}: {reason}; "
            "save the capture again"
        )

    def claim(self, bytes: int, name: str) -> None:
        """Takes memory from the file's allowance, before it is allocated.

        Raises:
            CaptureFileError: Less than that is left.
        """
        if bytes > self._left:
            raise self.wrong(
                f"{name} stands for {bytes / 1e6:.1f} MB in memory, more than is plausible for a "
                f"file of {self.size / 1e6:.2f} MB"
            )
        self._left -= bytes

    @contextmanager
    def claimed(self, bytes: int, name: str) -> Iterator[None]:
        """Takes memory from the allowance and returns it at the end."""
        self.claim(bytes, name)
        try:
            yield
        finally:
            self._left += bytes

    @contextmanager
    def part(self, name: str) -> Iterator[bytes]:
        """One part, unpacked; its memory is claimed while it is in use.

        Raises:
            CaptureFileError: It is missing, damaged, or too large for the file.
        """
        if name not in self.names:
            raise self.wrong(f"{name} is missing")
        # No more is read than the directory states. Twice, since the chunks are joined.
        with self.claimed(2 * self._sizes[name], name):
            try:
                with self._zip.open(name) as stream:
                    data = b"".join(iter(lambda: stream.read(_CHUNK), b""))
            except _DAMAGE as e:
                raise self.wrong(f"{name} is damaged ({type(e).__name__})") from None
            yield data

    @contextmanager
    def json(self, name: str) -> Iterator[Any]:
        """One part, as JSON; its memory is claimed while in use, and that of the result for good.

        Raises:
            CaptureFileError: As `part`, and where it is no JSON.
        """
        with self.part(name) as data:
            size = size_as_objects(data)
            if not data.isascii():  # `save` writes ASCII
                raise self.wrong(f"{name} is not JSON of ours")
            self.claim(size * 2 // 3, name)  # a module takes at most this part of its columns
            with self.claimed(size, name):
                try:
                    value = json.loads(data)
                except (ValueError, RecursionError):
                    raise self.wrong(f"{name} is not JSON") from None
                yield value


def read(path: str | os.PathLike[str]) -> Archive:
    """Opens a file.

    Raises:
        CaptureFileError: There is none, or it is no archive of ours.
    """
    where = Path(path)
    try:
        data = read_file(where, LARGEST_FILE)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaptureFileError(f"cannot read {where.name}: {reason}; check the path") from None
    return Archive(data, where.name)


def write(path: str | os.PathLike[str], parts: Mapping[str, bytes]) -> None:
    """Writes the parts; an existing file is replaced when all is written.

    Raises:
        CaptureFileError: The path cannot be written to.
    """
    where = Path(path)
    try:
        write_whole(where, packed(parts))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaptureFileError(f"cannot write {where.name}: {reason}; choose a place") from None


def packed(parts: Mapping[str, bytes], level: int = 9) -> bytes:
    """Returns the bytes of a file with these parts; `level` is zlib's, 1 the fastest."""
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w") as archive:
        for name in sorted(parts):
            info = zipfile.ZipInfo(name, _ANY_DAY)
            info.create_system = 3  # the same bytes on Windows
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, parts[name], compresslevel=level)
    return archived.getvalue()


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, whatever ends the process or the machine meanwhile.

    Raises:
        OSError: It cannot be written; what was there is as it was.
    """
    # Not by `tempfile`, whose files others may not read: captures are made to be shared.
    # Its name is no other's: containers that write into one folder may share process ids.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # else a crash of the machine can leave an empty file
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
