"""A node of HLO text: name, opcode, operands and calls are read at once, the rest when asked for.

Reading a line in full costs about three times what it takes to find these four, and most of
a large program is never looked at that closely. The values are kept once they are made.
"""

import re
from collections.abc import Mapping
from typing import Any

from jaxlens.ir.graph import Node, Span, Type, Value
from jaxlens.ir.hlo_frames import Frames, origin
from jaxlens.ir.hlo_line import instruction_attributes
from jaxlens.ir.hlo_text import read_type

_PLAIN = re.compile(
    r'[^"]*, metadata=\{op_name="([^"\\]*)"(?: stack_frame_id=(\d{1,9}))?\}', re.DOTALL
)
_slots: dict[str, Any] = {name: vars(Node)[name] for name in Node.__slots__}
_results, _attrs = _slots["results"].__get__, _slots["attrs"].__get__
_scope, _spans = _slots["scope"].__get__, _slots["spans"].__get__


class Instruction(Node):
    """A Node whose `results`, `attrs`, `scope` and `spans` are made when first read.

    A property hides the slot of the same name, which holds the value once there is one.
    """

    __slots__ = ("_frames", "_shape")
    _frames: Frames
    _shape: str

    @property
    def results(self) -> tuple[Value, ...]:
        try:
            return _results(self)  # type: ignore[no-any-return]
        except AttributeError:
            type_ = read_type(self._shape) or Type(self._shape)
            found = (Value(self.id, type_),)
            _slots["results"].__set__(self, found)
            return found

    @property
    def type(self) -> Type:
        return self.results[0].type

    @property
    def attrs(self) -> Mapping[str, str]:
        try:
            return _attrs(self)  # type: ignore[no-any-return]
        except AttributeError:
            found = instruction_attributes(self.text)
            _slots["attrs"].__set__(self, found)
            return found

    @property
    def scope(self) -> str:
        try:
            return _scope(self)  # type: ignore[no-any-return]
        except AttributeError:
            return self._origin()[0]

    @property
    def spans(self) -> tuple[Span, ...]:
        try:
            return _spans(self)  # type: ignore[no-any-return]
        except AttributeError:
            return self._origin()[1]

    def _origin(self) -> tuple[str, tuple[Span, ...]]:
        found = self._read_origin()
        _slots["scope"].__set__(self, found[0])
        _slots["spans"].__set__(self, found[1])
        return found

    def _read_origin(self) -> tuple[str, tuple[Span, ...]]:
        if ", metadata=" not in self.text:
            return "", ()
        plain = _PLAIN.match(self.text)
        if plain is None:
            return origin(self.attrs.get("metadata", ""), self._frames)
        scope, frame = plain.groups()
        return scope, self._frames.stack(frame) if frame else ()
