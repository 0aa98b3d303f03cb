"""Reads the names of XLA's flags from jaxlib, to suggest one for an unknown flag.

XLA exposes no list of them to Python; their names are strings in its shared library.
"""

import mmap
import re
from functools import cache
from pathlib import Path

import jaxlib

_FLAG = re.compile(rb"\0(xla_[a-z][a-z0-9_]{3,80})\0")


@cache
def names() -> tuple[str, ...]:
    """Returns all flag names, sorted; empty if the libraries cannot be read."""
    found: set[str] = set()
    for path in Path(jaxlib.__file__).parent.glob("*.so*"):
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
                found.update(name[1].decode() for name in _FLAG.finditer(m))
        except (OSError, ValueError):
            continue
    return tuple(sorted(found))
