"""Causes that the message of an exception names: a row of `causes.tsv` each.

A row has a kind of mistake, names of exception types, a pattern for the message, the values of the
line that are worth showing, and sentences with the groups of the pattern in braces: why it fails,
and cures, with " | " between them. The first row that fits is used, of those that have a kind (some
have rewrites of the line), and of those that have none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlens.questions.failure.facts import Remedy
from jaxlens.questions.failure.measure.failing_value import is_tracer
from jaxlens.reading import table_rows

_LONGEST = 4_000  # characters of a message that are searched


@dataclass(frozen=True, slots=True)
class MessageCause:
    """What the rows that fit an exception say of it.

    Attributes:
        mistake: The kind of the first row that has one: what the code needed from a traced value,
            or JAX from an argument; "" for none.
        why: Why it fails, as a sentence without its full stop; "" where no row says it.
        remedies: What to do about a mistake of this kind, none of it tried.
        listed: What the first row without a kind proposes, none of it tried.
        shows: Whether a value of the failing line is one that the error is about.
    """

    mistake: str
    why: str
    remedies: tuple[Remedy, ...]
    listed: tuple[Remedy, ...]
    shows: Callable[[Any], bool]


class CauseRow(NamedTuple):
    """A row of `causes.tsv`."""

    kind: str
    errors: str
    pattern: str
    shows: str
    why: str
    cures: str


_NONE = CauseRow("", "", "", "", "", "")


@cache
def rows() -> tuple[CauseRow, ...]:
    """Reads `causes.tsv`."""
    table = table_rows("jaxlens.questions.failure.measure", "causes.tsv")
    return tuple(starmap(CauseRow, table[1:]))


def row_of(error: BaseException, kind: bool) -> tuple[CauseRow, dict[str, str]]:
    """Returns the row that fits an exception, and the groups of its pattern; an empty row for none.

    Args:
        error: The exception.
        kind: Whether to look among the rows that have a kind, or among the others.
    """
    types = {each.__name__ for each in type(error).__mro__}
    message = str(error)[:_LONGEST]
    for row in rows():
        of_type = bool(row.kind) == kind and types.intersection(row.errors.split())
        if of_type and (found := re.search(row.pattern, message, re.DOTALL)):
            return row, {name: text or "" for name, text in found.groupdict().items()}
    return _NONE, {}


def cause_of(error: BaseException, names: Mapping[str, str]) -> MessageCause:
    """Returns what the table says of an exception.

    Args:
        error: The exception.
        names: What sentences name beside the groups of their patterns: "jax" and "jnp", as the
            user's code calls them, and "message".
    """
    of_run = isinstance(error, jax.errors.JaxRuntimeError)
    mistake, groups = row_of(error, True) if not of_run else (_NONE, {})
    row, more = row_of(error, False)
    words = {**groups, **more, **names}
    return MessageCause(
        mistake.kind,
        (mistake.why or row.why).format_map(words),
        _cures(mistake, words),
        _cures(row, words),
        _SHOWS[row.shows],
    )


def _cures(row: CauseRow, words: Mapping[str, str]) -> tuple[Remedy, ...]:
    texts = row.cures.format_map(words).split(" | ") if row.cures else ()
    return tuple(map(Remedy, texts))


def is_array(value: Any) -> bool:
    """Whether a value is a tracer or an array of JAX's."""
    return is_tracer(value) or issubclass(type(value), jax.Array)


_SHOWS: Mapping[str, Callable[[Any], bool]] = {
    "": is_array,
    "integers": lambda x: is_array(x) and not jnp.issubdtype(x.aval.dtype, jnp.inexact),
    "deleted": lambda x: is_array(x) and not is_tracer(x) and x.is_deleted(),
    "none": lambda value: value is None,
}
