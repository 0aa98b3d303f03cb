"""Turns the frames of a Python stack into spans, and gives files short names.

Every reader makes its `Span`s here, so that one line of Python has one name in all
stages. JAX's frames and ours are left out, library frames are kept and marked, and
whatever launched the user's code (IPython, pytest, runpy) is cut off.

The names are module state, because all stages of one program must agree on them:
`_CELLS` is written by `register_cell` alone, `_TAKEN` by `describe` alone.
"""

import importlib.util
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from jaxlens.ir import cells
from jaxlens.ir.graph import Span

Frame = tuple[str, int, int, int, int, str]
"""File name, line, end line, column, end column, function; 0 and -1 where unknown."""

_CELLS: dict[str, int] = {}
_TAKEN: dict[str, str] = {}

_PACKAGE = re.compile(r"(?:^|/)(?:site|dist)-packages/(.+)$")
_STDLIB = re.compile(r"(?:^|/)lib(?:64)?/python3\.\d+/(.+)$")
_ZIPPED = re.compile(r"(?:^|/)python3\d+\.zip/(.+)$")
_INPUT = re.compile(r"<ipython-input-(\d+)-")
_KERNEL = re.compile(r"/ipykernel_\d+/\d+\.py$")
_MARIMO = re.compile(
    r"/__marimo__cell_(\w+?)_[^/]*\.py$"
)  # its cells have names instead of numbers
_OWN = ("jax/", "jaxlib/", "jaxlens/")
BOUNDARY = "<jaxlens>"
"""File name of the function that wraps a traced program; frames outside it are ours."""
_TYPED = ("<ipython-input", "<stdin>", "<string>", "<doctest", "<cell")


@dataclass(frozen=True, slots=True)
class File:
    """A Python file, judged by its name.

    Attributes:
        key: The file name as Python has it.
        name: Short, stable and distinct: "cell 3", "model.py", "flax/nnx/nn/linear.py".
        library: Whether it belongs to an installed package or the standard library.
        own: Whether it belongs to JAX or to jaxlens, whose frames are left out of spans.
    """

    key: str
    name: str
    library: bool
    own: bool


def register_cell(key: str, number: int) -> None:
    """Sets the number of the notebook cell that the file name `key` stands for."""
    if _CELLS.get(key) != number:
        _CELLS[key] = number
        _describe.cache_clear()


def describe(key: str) -> File:
    """Describes a file, given its `code.co_filename` or the name in a program's location."""
    # A cell that is run again keeps its file and gets a new number.
    return _describe(key, cells.number(key) if "/ipykernel_" in key else None)


@cache
def _describe(key: str, number: int | None) -> File:
    path = key.replace("\\", "/")
    cell = _CELLS.get(key, number)
    if cell is None and (match := _INPUT.match(key)):
        cell = int(match.group(1))
    if cell is not None:
        return File(key, f"cell {cell}", library=False, own=False)
    if marimo := _MARIMO.search(path):
        return File(key, f"cell {marimo[1]}", library=False, own=False)
    if path.startswith("<"):
        name = key[1:-1] if key.startswith("<cell ") else key  # of a puzzle or a prediction
        return File(key, name, library=not path.startswith(_TYPED), own=False)
    inside = _inside_library(path)
    if inside is not None:
        return File(key, inside, library=True, own=inside.startswith(_OWN))
    return File(key, _distinct(path), library=False, own=False)


def spans(frames: Iterable[Frame]) -> tuple[Span, ...]:
    """The spans of a stack.

    Args:
        frames: A stack, innermost frame first.

    Returns:
        Innermost first, without the frames of JAX and jaxlens, without the library frames outside
        the user's outermost frame, which launched it, and without the frames outside `BOUNDARY`.
    """
    return of_program(map(span, frames))


def span(frame: Frame) -> Span | None:
    """The span of a frame; None for one of JAX or jaxlens."""
    key, line, end_line, column, end_column, function = frame
    file = describe(key)
    if file.own:
        return None
    place = (file.name, line, end_line or line, column, end_column)
    return Span(*place, function, key, file.library)


def of_program(stack: Iterable[Span | None]) -> tuple[Span, ...]:
    """As `spans`, of the spans of frames: those that are of the program."""
    shown = []
    for one in filter(None, stack):
        if one.key == BOUNDARY:
            break  # outside is the line that calls jaxlens, which is no part of the program
        shown.append(one)
    user = next((i for i in reversed(range(len(shown))) if not shown[i].library), None)
    return tuple(shown if user is None else shown[: user + 1])


def _inside_library(path: str) -> str | None:
    """The path within the installed package or the standard library; None for a user's file."""
    if match := _PACKAGE.search(path):
        return match.group(1)
    for root, prefix in _roots():
        if path.startswith(root):
            return prefix + path[len(root) :]
    if match := _STDLIB.search(path) or _ZIPPED.search(path):
        return match.group(1)
    return None


@cache
def _roots() -> tuple[tuple[str, str], ...]:
    """Folders of libraries without `site-packages` in their path, and the prefix of their names.

    JAX and jaxlens may be installed from a checkout; their specs are read without importing.
    """
    roots = []
    for package in ("jax", "jaxlib", "jaxlens"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            roots.append((folder, f"{package}/"))
    roots += [(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")]
    return tuple((root.replace("\\", "/").rstrip("/") + "/", prefix) for root, prefix in roots)


def _distinct(path: str) -> str:
    """The base name, with as many folders as distinguish it from files seen earlier."""
    if _KERNEL.search(path):
        return "cell"  # an unregistered cell, whose temporary name means nothing
    parts = path.split("/")
    for length in range(1, len(parts) + 1):
        name = "/".join(parts[-length:])
        if _TAKEN.setdefault(name, path) == path:
            return name
    return path
