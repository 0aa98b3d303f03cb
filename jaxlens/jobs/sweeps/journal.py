"""The file of a sweep: one line of JSON for each point, written when it is measured.

A line is written whole by one call and appended, so that two sweeps can write to one file, and a
process that is killed leaves at most an unfinished last line, which is skipped. A point is found
again by what was compiled: its program, flags, target, and the versions that compiled it.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jaxlens.errors import OptionError
from jaxlens.reading import JSON_MEMORY, parsed, read_file

_HEAD = '{"jaxlens_sweep": 1, '
_LARGEST = 1 << 30  # bytes of a file


class Journal:
    """What a file has of earlier points; appends to it.

    Args:
        path: The file; it is made with the first point.

    Attributes:
        trouble: Why a point could not be written; "" where none failed.

    Raises:
        OptionError: The file cannot be read, or is no sweep's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.trouble = ""
        try:
            data = read_file(self.path, _LARGEST)
        except FileNotFoundError:
            data = b""
        except OSError as why:
            raise OptionError(f"the sweep's file cannot be read: {why}") from None
        lines = data.decode("utf-8", "replace").split("\n")
        if data and not any(line.startswith(_HEAD[: len(line) or 1]) for line in lines):
            raise OptionError(
                f"{self.path.name} is not a sweep's file: resume=... takes one, or a new name"
            )
        self._unfinished = bool(lines[-1])
        self._known: dict[str, dict[str, Any]] = {}
        for line in lines:
            if row := _read(line):
                self._known.setdefault(row["key"], {}).update(row["figures"])

    def figures(self, key: str, names: Collection[str]) -> dict[str, Any] | None:
        """Returns the figures of a point by their names; None if one was not measured yet."""
        known = self._known.get(key)  # flops alone are no figure of the file: `names` may be empty
        if known is None or not known.keys() >= set(names):
            return None
        return {name: known[name] for name in names}

    def keep(self, key: str, point: Mapping[str, str], figures: Mapping[str, Any]) -> None:
        """Appends a point; a full disk does not end the sweep, and is in `trouble`."""
        row = {"key": key, "point": dict(point), "figures": dict(figures)}
        line = (_HEAD + json.dumps(row)[1:] + "\n").encode()
        if self._unfinished:  # of a process that was killed, or a disk that was full
            line = b"\n" + line
        try:
            with open(self.path, "ab", buffering=0) as file:
                self._unfinished = file.write(line) < len(line)
        except OSError as why:
            self.trouble = f"{why.strerror or why}"
        else:
            self.trouble = "the disk is full" if self._unfinished else self.trouble


def _read(line: str) -> dict[str, Any] | None:
    """Returns the point of a whole line."""
    try:
        row = parsed(line.encode(), JSON_MEMORY) if line.startswith(_HEAD) else {}
    except ValueError:
        return None
    whole = isinstance(row.get("key"), str) and isinstance(row.get("figures"), dict)
    return row if whole else None
