"""Decodes the buffer assignment that an executable carries: XLA's `BufferAssignmentProto`.

Numbers of fields are those of xla/service/hlo.proto. Only allocations are read: the message has
neither types nor live ranges of the values in them, so the peak does not follow from it.
"""

from typing import Any

from jaxlens.errors import ReadError

_Fields = dict[int, list[Any]]
_FIXED = {1: 8, 5: 4}  # bytes of a field of fixed size, by wire type


def assignment_text(assignment: bytes) -> str:
    """Returns the allocations of a buffer assignment as XLA prints them, without their values.

    Args:
        assignment: Its message.

    Raises:
        ReadError: The message is damaged.
    """
    try:
        lines = [_allocation(_fields(one)) for one in _fields(assignment)[3]]
        return "\n".join(("BufferAssignment:", *lines))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ReadError(f"XLA's buffer assignment is not of a known form ({error!r})") from None


def _allocation(fields: _Fields) -> str:
    """Returns the line of an allocation."""
    color, parameter = _number(fields, 8), f"parameter {_number(fields, 6)}, shape ||"
    notes = (
        f"{parameter} at ShapeIndex {_index(fields, 10) or '{}'}" * _number(fields, 5),
        "constant" * _number(fields, 12),
        "maybe-live-out" * _number(fields, 7),
        "thread-local" * _number(fields, 3),
        f"color {color}" * bool(color),
    )
    head = f"allocation {_number(fields, 1)}: size {_number(fields, 2)}"
    return f"{', '.join(filter(None, (head, *notes)))}:"


def _index(fields: _Fields, number: int) -> str:
    """Returns an index into a tuple, whose numbers are packed: "{1,0}"; "" for the whole."""
    numbers: list[int] = []
    for packed in fields.get(number, ()):
        at = 0
        while at < len(packed):
            one, at = _varint(packed, at)
            numbers.append(one)
    return f"{{{','.join(map(str, numbers))}}}" if numbers else ""


def _number(fields: _Fields, number: int) -> int:
    return int(fields[number][-1]) if number in fields else 0  # the default is not written


def _fields(data: bytes) -> _Fields:
    """Returns the fields of a message by number: as numbers, or bytes where they have a length."""
    fields: _Fields = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at) if data[at] > 127 else (data[at], at + 1)
        if (kind := key & 7) in _FIXED:
            at += _FIXED[kind]
            continue
        value, at = _varint(data, at) if data[at] > 127 else (data[at], at + 1)
        if kind not in (0, 2):
            raise ValueError(f"wire type {kind}")
        fields.setdefault(key >> 3, []).append(data[at : at + value] if kind else value)
        at += value if kind else 0
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number of seven bits a byte, lowest first, and the position after it."""
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return number | byte << shift, at + 1
