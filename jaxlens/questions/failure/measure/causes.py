"""Causes that the message of an exception names: a row of `causes.tsv` each.

A row has the names of exception types, a pattern for the message, the values of the line that are
worth showing, and sentences with the groups of the pattern in braces: why it fails, and cures,
with " | " between them. The first row that fits is used.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlens.questions.failure.facts import Remedy
from jaxlens.questions.failure.measure.failing_value import is_tracer

_LONGEST = 4_000  # characters of a message that are searched


@dataclass(frozen=True, slots=True)
class MessageCause:
    """What a row says of an exception.

    Attributes:
        why: Why it fails, as a sentence without its full stop; "" where the kind of mistake says
            it.
        remedies: Changes that avoid it, none of them tried.
        shows: Whether a value of the failing line is one that the error is about.
    """

    why: str
    remedies: tuple[Remedy, ...]
    shows: Callable[[Any], bool]


class CauseRow(NamedTuple):
    """A row of `causes.tsv`."""

    errors: str
    pattern: str
    shows: str
    why: str
    cures: str


@cache
def rows() -> tuple[CauseRow, ...]:
    """Reads `causes.tsv`; a line that begins with "#" is a heading."""
    text = files("jaxlens.questions.failure.measure").joinpath("causes.tsv").read_text("utf-8")
    lines = (line for line in text.splitlines()[1:] if not line.startswith("#"))
    return tuple(CauseRow(*line.split("\t")) for line in lines)


def row_of(error: BaseException) -> tuple[CauseRow, dict[str, str]] | None:
    """Returns the row that fits an exception, and the groups of its pattern; None if none fits."""
    types = {kind.__name__ for kind in type(error).__mro__}
    message = str(error)[:_LONGEST]
    for row in rows():
        found = re.search(row.pattern, message, re.DOTALL)
        if found and types.intersection(row.errors.split()):
            return row, {name: text or "" for name, text in found.groupdict().items()}
    return None


def cause_of(error: BaseException) -> MessageCause | None:
    """Returns the cause of an exception; None if no row fits it."""
    found = row_of(error)
    if found is None:
        return None
    row, groups = found
    cures = row.cures.format_map(groups).split(" | ")
    return MessageCause(row.why.format_map(groups), tuple(map(Remedy, cures)), _SHOWS[row.shows])


def is_array(value: Any) -> bool:
    """Whether a value is a tracer or an array of JAX's."""
    return is_tracer(value) or issubclass(type(value), jax.Array)


def _is_integer(value: Any) -> bool:
    return is_array(value) and not jnp.issubdtype(value.aval.dtype, jnp.inexact)


def _is_deleted(value: Any) -> bool:
    return is_array(value) and not is_tracer(value) and value.is_deleted()


_SHOWS: Mapping[str, Callable[[Any], bool]] = {
    "": is_array,
    "integers": _is_integer,
    "deleted": _is_deleted,
    "none": lambda value: value is None,
}
