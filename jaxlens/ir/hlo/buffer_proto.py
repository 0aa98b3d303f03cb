"""Decodes the buffer assignment that an executable carries: XLA's `BufferAssignmentProto`.

Numbers of fields are those of xla/service/hlo.proto. The message names instructions by id, so the
ids are looked up in the message of the module. It has neither types nor live ranges, which follow
from the optimised program: see `scheduled_ranges.py`.
"""

from collections.abc import Iterator
from typing import Any

from jaxlens.errors import ReadError

_Fields = dict[int, list[Any]]
_FIXED = {1: 8, 5: 4}  # bytes of a field of fixed size, by wire type


def assignment_text(assignment: bytes, module: bytes) -> str:
    """Returns a buffer assignment as XLA prints it, but for the types of values.

    Args:
        assignment: Its message.
        module: The `HloModuleProto` of its program.

    Raises:
        ReadError: One of the messages is damaged, or they are not of one program.
    """
    try:
        fields = _fields(assignment)
        values = {_number(value, 1): value for value in map(_fields, fields.get(1, ()))}
        places = {number: _fields(value[3][0]) for number, value in values.items()}
        names = dict(_names(module, {_number(place, 4) for place in places.values()}))
        written = {
            number: f"{names[_number(place, 4)]}{_index(place, 3)} @{_number(values[number], 4)}"
            for number, place in places.items()
        }
        lines = (line for one in fields.get(3, ()) for line in _allocation(_fields(one), written))
        return "\n".join(("BufferAssignment:", *lines))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ReadError(f"XLA's buffer assignment is not of a known form ({error!r})") from None


def _names(module: bytes, ids: set[int]) -> Iterator[tuple[int, str]]:
    scheduled = {id >> 32 for id in ids}  # the upper half is the computation's: few have buffers
    for computation in map(_fields, _fields(module).get(3, ())):
        for one in computation[2] if _number(computation, 5) in scheduled else ():
            instruction = _fields(one)
            if (id := _number(instruction, 35)) in ids:
                yield id, instruction[1][0].decode()


def _allocation(fields: _Fields, written: dict[int, str]) -> Iterator[str]:
    """Yields the lines of an allocation and of the values in it."""
    color, parameter = _number(fields, 8), f"parameter {_number(fields, 6)}, shape ||"
    notes = (
        f"{parameter} at ShapeIndex {_index(fields, 10) or '{}'}" * _number(fields, 5),
        "constant" * _number(fields, 12),
        "maybe-live-out" * _number(fields, 7),
        "thread-local" * _number(fields, 3),
        f"color {color}" * bool(color),
    )
    head = f"allocation {_number(fields, 1)}: size {_number(fields, 2)}"
    yield f"{', '.join(filter(None, (head, *notes)))}:"
    for value in map(_fields, fields.get(9, ())):
        number, offset, size = (_number(value, field) for field in (1, 2, 3))
        yield f" value: <{number} {written[number]}> (size={size},offset={offset}):"


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
