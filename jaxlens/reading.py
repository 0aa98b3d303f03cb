"""Reads files that others wrote, within bounds of time and memory: captures, records, profiles.

A name can be that of a pipe, whose reader waits for ever, or lead to a device without an end. So a
file is opened without waiting, what was opened is tested, and no more than a limit is read. Parsed
JSON takes up to fifty times its bytes, so its memory is computed before it is parsed. The tables of
jaxlens itself need none of this.
"""

import errno
import json
import os
import stat
from importlib.resources import files
from typing import Any

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # as each system
JSON_MEMORY = 256 << 20
"""Bytes of memory that the JSON of a small file may take: progress, a verdict, receipts."""


def read_file(
    path: str | os.PathLike[str], most: int, start: int = 0, length: int | None = None
) -> bytes:
    """Returns the bytes that a file has when it is opened.

    Args:
        path: Its path.
        most: The most bytes that are read.
        start: The first of them.
        length: How many; None for all.

    Raises:
        OSError: It cannot be read, is no regular file, or is larger.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is a folder, a pipe or a device", os.fspath(path))
        size = status.st_size if length is None else length
        if not 0 <= size <= most:
            raise OSError(errno.EFBIG, f"it is larger than {_size(most)}", os.fspath(path))
        with open(descriptor, "rb", closefd=False) as stream:
            stream.seek(start)
            return stream.read(size)
    finally:
        os.close(descriptor)


def table_rows(package: str, name: str) -> list[list[str]]:
    """Returns the rows of a table of jaxlens (TSV), its headings first, without comments.

    Args:
        package: The package that has it.
        name: Its file.
    """
    lines = files(package).joinpath(name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def read_json(path: str | os.PathLike[str], most: int = JSON_MEMORY) -> Any:
    """Returns what a file of JSON holds.

    Args:
        path: Its path.
        most: The most bytes of memory that this may take.

    Raises:
        OSError: As `read_file`.
        ValueError: It is no JSON, or would take more memory.
    """
    return parsed(read_file(path, most), most)


def parsed(data: bytes, most: int) -> Any:
    """Returns what JSON text holds.

    Args:
        data: The text.
        most: The most bytes of memory that this may take.

    Raises:
        ValueError: It is no JSON, or would take more memory.
    """
    if size_as_objects(data) > most:
        raise ValueError(f"in memory it would take more than {_size(most)}")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("its lists lie in each other too deep") from None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number of a protocol buffer, and the position after it; cut off with the bytes.

    Args:
        data: The buffer.
        at: The position of the number, which has at most ten bytes.
    """
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    return value, min(at + 10, len(data))


def size_as_objects(data: bytes) -> int:
    """Returns an upper bound of the memory of parsed JSON, from counts of its characters."""
    lists, objects, commas = (data.count(sign) for sign in (b"[", b"{", b","))
    strings = data.count(b'"') // 2
    empty = data.count(b"[]")
    items = commas + lists + objects - empty  # no comma follows the last item of a container
    numbers = max(0, items - strings - lists - objects + 1)
    wide = b"\\u" in data or not data.isascii()
    letters = len(data) * (4 if wide else 1)  # most of a file of columns is no string
    entries = 40 * data.count(b":") + 12 * items
    containers = 56 * empty + 88 * (lists - empty) + 200 * objects
    return containers + 52 * strings + 28 * numbers + entries + letters


def _size(bytes: int) -> str:
    return f"{bytes >> 20:,} MiB" if bytes >> 20 else f"{bytes:,} bytes"
