"""A saved capture as a file: a zip archive of few, named, bounded parts.

Files come from anywhere, so they are data to be checked: nothing is unpacked to disk, parts have
known names only, and no part may be larger than a bound, whatever its compressed size is. The
same parts give the same bytes.
"""

import io
import json
import os
import threading
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxlens.errors import CaptureFileError

FORMAT = "jaxlens capture"
VERSION = 1
LARGEST_FILE = 256 << 20
LARGEST_PART = 512 << 20
_NAMES = frozenset({
    "manifest.json", "sources.json", "jaxpr.json", "stablehlo.json", "early.bin", "hlo.bin",
    "code.bin",
})  # fmt: skip
_ANY_DAY = (1980, 1, 1, 0, 0, 0)


class Archive:
    """The parts of a saved file, unpacked one by one when asked for."""

    def __init__(self, data: bytes, where: str) -> None:
        """Opens the bytes of a file.

        Raises:
            CaptureFileError: They are no archive, or hold what no capture holds.
        """
        self.where = where
        self._size = len(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            infos = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            raise self.wrong("not a zip archive") from None
        names = [info.filename for info in infos]
        if len(set(names)) != len(names) or not set(names) <= _NAMES:
            raise self.wrong(f"holds parts that no capture has ({names[:3]!r} ...)")
        if any(info.file_size > LARGEST_PART for info in infos):
            raise self.wrong(f"a part is larger than {LARGEST_PART >> 20} MiB")
        self.names = frozenset(names)

    def wrong(self, what: str) -> CaptureFileError:
        """The error to raise for this file."""
        return CaptureFileError(
            f"expected a file that jaxlens.Capture.save wrote, got {self.where}: {what}; "
            "save the capture again"
        )

    def part(self, name: str) -> bytes:
        """One part, unpacked.

        Raises:
            CaptureFileError: It is missing, damaged, or larger than it says or than the bound.
        """
        if name not in self.names:
            raise self.wrong(f"{name} is missing")
        try:
            with self._zip.open(name) as stream:
                data = stream.read(LARGEST_PART + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as e:
            raise self.wrong(f"{name} is damaged ({type(e).__name__})") from None
        if len(data) > LARGEST_PART:
            raise self.wrong(f"{name} is larger than {LARGEST_PART >> 20} MiB")
        return data

    def json(self, name: str) -> Any:
        """One part, as JSON."""
        try:
            return json.loads(self.part(name))
        except (ValueError, RecursionError):
            raise self.wrong(f"{name} is not JSON") from None


def read(path: str | os.PathLike[str]) -> Archive:
    """Opens a file.

    Raises:
        CaptureFileError: There is none, or it is no archive of ours.
    """
    where = Path(path)
    try:
        with where.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaptureFileError(f"cannot read {where.name}: {reason}; check the path") from None
    if len(data) > LARGEST_FILE:
        raise CaptureFileError(f"{where.name} is larger than {LARGEST_FILE >> 20} MiB")
    return Archive(data, where.name)


def write(path: str | os.PathLike[str], parts: Mapping[str, bytes]) -> None:
    """Writes the parts; a file that was there is replaced only when all is written.

    Raises:
        CaptureFileError: The place cannot be written to.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(parts):
            info = zipfile.ZipInfo(name, _ANY_DAY)
            info.create_system = 3  # the same bytes on Windows
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, parts[name], compresslevel=9)
    where = Path(path)
    # Not by `tempfile`, whose files nobody else may read: captures are there to be handed on.
    temporary = where.with_name(f".{where.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(packed.getvalue())
        os.replace(temporary, where)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = error.strerror or type(error).__name__
        raise CaptureFileError(f"cannot write {where.name}: {reason}; choose a place") from None
