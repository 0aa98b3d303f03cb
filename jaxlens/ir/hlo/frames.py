"""Finds the Python lines that an HLO instruction came from in its metadata.

jax 0.8 and later print tables at the head of a module (FileNames, FunctionNames,
FileLocations, StackFrames) and a `stack_frame_id` per instruction; before that, each
instruction carried `source_file` and `source_line`. Both are read.

A `parent_frame_id` is printed one higher than the frame it means, and 1 stands for no parent:
XLA's ids start at 1 with 0 for none, and its printer adds one to the parent alone. As a
frame always follows its parent in the table, a shifted table read as it stands would have a frame
that is its own parent. A table with a 0, or in which all parents precede, is not shifted.
"""

import re
from collections.abc import Callable
from functools import cached_property

from jaxlens.ir.graph import Module, Span
from jaxlens.ir.hlo.text import unescape, unquote
from jaxlens.ir.spans import Frame, spans
from jaxlens.ir.stamps import apart

_SECTIONS = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ENTRY = re.compile(r"(\d{1,9}) (?:\"(.*)\"|\{([^{}\"]*)\})\s*$")
_FIELD = re.compile(r"\b(\w++)=(-?\d{1,9})(?!\d)")
_METADATA = re.compile(r'\b(\w++)=("[^"\\]*(?:\\.[^"\\]*)*"|\{[^{}"]*\}|[^\s{}",]+)')
_DEEPEST = 1000  # Python's own limit of recursion; a broken table could have a longer chain


Origins = Callable[[str], tuple[Span, ...]]
"""Gives the frames of a StableHLO op by its id; none for an unknown id."""


Metadata = tuple[str, tuple[Span, ...], tuple[tuple[str, ...], ...]]
"""An instruction's metadata: scope, frames, and the paths of its stamps."""


def origins(stablehlo: Callable[[], Module]) -> Origins:
    """Gives the frames of a module's ops; the module is read at the first call."""
    spans_of: dict[str, tuple[Span, ...]] = {}

    def frames(op: str) -> tuple[Span, ...]:
        if not spans_of:
            spans_of.update((node.id, node.spans) for node in stablehlo().nodes())
        return spans_of.get(op, ())

    return frames


class Frames:
    """The tables at the head of one module. Each stack is made once, on first use.

    Attributes:
        known: Metadata of instructions by its text, which fusion copies.
    """

    def __init__(self, origins: Origins | None = None) -> None:
        self._origins = origins
        self._names: dict[str, dict[int, str]] = {"FileNames": {}, "FunctionNames": {}}
        self._fields: dict[str, dict[int, dict[str, int]]]
        self._fields = {"FileLocations": {}, "StackFrames": {}}
        self._stacks: dict[str, tuple[Span, ...]] = {}
        self.known: dict[str, Metadata] = {}

    def read(self, lines: list[str]) -> list[str]:
        """Reads the lines between a module's first line and its first computation.

        Returns:
            Lines that belong to no table.
        """
        section, unknown = "", []
        for line in lines:
            if line in _SECTIONS:
                section = line
                continue
            match = _ENTRY.match(line)
            number, name, fields = match.groups() if match else ("", None, None)
            if section in self._names and name is not None:
                self._names[section][int(number)] = unescape(name)
            elif section in self._fields and fields is not None:
                self._fields[section][int(number)] = {k: int(v) for k, v in _FIELD.findall(fields)}
            elif line.strip():
                unknown.append(line)
        return unknown

    def stack(self, frame: str) -> tuple[Span, ...]:
        """The frames of a `stack_frame_id`, innermost first, without JAX's own."""
        stack = self._stacks.get(frame)
        if stack is None:
            stack = self._stacks[frame] = spans(self._chain(int(frame)))
        return stack

    def printed(self, text: str) -> Metadata:
        """Reads and keeps `"scope" stack_frame_id=5`."""
        scope, _, frame = text[1:].partition('"')
        stack = self.stack(frame.rpartition("=")[2]) if frame else ()
        self.known[text] = metadata = self.metadata(scope, stack)
        return metadata

    def metadata(self, scope: str, spans: tuple[Span, ...]) -> Metadata:
        """The metadata of an op_name and the frames beside it."""
        if "_jl" not in scope:
            return scope, spans, ()
        unstamped_scope, paths = apart(scope)
        if len(paths) != 1 or paths[0][-1][0] != "s":
            paths = tuple(path for path in paths if path[-1].startswith("s"))
        return unstamped_scope, spans or self._merged(scope, paths), paths

    def _merged(self, scope: str, paths: tuple[tuple[str, ...], ...]) -> tuple[Span, ...]:
        """The frames of an instruction that has none, from the ops that its stamps name.

        XLA before jaxlib 0.12 drops the frames of instructions that it merges unless their
        locations are equal. Those of ops of one line would be, but differ in their stamps.
        """
        if self._origins is None or scope.count(";") + 1 != len(paths):
            return ()
        first, *rest = (self._origins(path[-1]) for path in paths)
        return first if all(stack == first for stack in rest) else ()

    def _chain(self, frame: int) -> list[Frame]:
        frames = self._fields["StackFrames"]
        chain: list[Frame] = []
        while (fields := frames.get(frame)) is not None and len(chain) < _DEEPEST:
            place = self._fields["FileLocations"].get(fields.get("file_location_id", 0))
            if place is not None:
                file = self._names["FileNames"].get(place.get("file_name_id", 0), "")
                function = self._names["FunctionNames"].get(place.get("function_name_id", 0), "")
                located = _frame(file, function, place)
                # Where XLA or JAX omitted frames, their caller is repeated.
                if chain[-1:] != [located]:
                    chain.append(located)
            parent = fields.get("parent_frame_id", 0) - self._parent_shift
            if parent >= frame:
                break
            frame = parent
        return chain

    @cached_property
    def _parent_shift(self) -> int:
        frames = self._fields["StackFrames"].items()
        parents = {number: fields.get("parent_frame_id", 0) for number, fields in frames}
        return 0 if 0 in parents.values() or all(p < n for n, p in parents.items()) else 1


def origin(metadata: str, frames: Frames) -> tuple[str, tuple[Span, ...]]:
    """Scope and frames of an instruction's `metadata={...}`.

    Returns:
        The op_name, kept whole where a pass joined several with `;`, and the frames.
    """
    fields = dict(_METADATA.findall(metadata))
    scope = unquote(fields.get("op_name", ""))
    frame = fields.get("stack_frame_id", "")
    if frame.isdecimal() and len(frame) < 10:
        return scope, frames.stack(frame)
    return scope, _inline(fields)


def _inline(fields: dict[str, str]) -> tuple[Span, ...]:
    """The one frame of metadata before jax 0.8; none where it names no file."""
    file = unquote(fields.get("source_file", ""))
    if not file:
        return ()
    place = {
        key.removeprefix("source_"): int(value)
        for key, value in fields.items()
        if key.startswith("source_") and value.isdecimal() and len(value) < 10
    }
    return spans([_frame(file, "", place)])


def _frame(file: str, function: str, place: dict[str, int]) -> Frame:
    """A frame. With several devices XLA prints the start of an expression twice, and no end."""
    line, column, end = place.get("line", 0), place.get("column", -1), place.get("end_column", -1)
    end_line = place.get("end_line", line)
    if column == end == 0:
        column = -1
    if end <= column and end_line <= line:
        end = -1
    return file, line, end_line, column, end, function
