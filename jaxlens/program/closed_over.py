"""The arrays that a program closes over, and what every compile says of large ones."""

from collections.abc import Sequence
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Constant
from jaxlens.report import Finding, amount, count, is_cause, saves

_ALARM = 1_000_000  # bytes of captured arrays from which every compile reports them
LARGE = 1_000  # bytes of a constant from which a sentence names it


def largest_first(capture: Capture) -> tuple[Constant, ...]:
    """Returns the arrays that a program closes over, the largest first.

    Raises:
        UnavailableError: The capture has no trace.
    """
    return tuple(sorted(capture.constants, key=lambda c: (-c.bytes, c.name)))


def closed_over(capture: Capture) -> tuple[Constant, ...] | None:
    """Returns the arrays that a program closes over; None if the capture has no trace."""
    try:
        return largest_first(capture)
    except UnavailableError:
        return None


def alarm(constants: Sequence[Constant] | None) -> tuple[Finding, ...]:
    """Returns the sentence on large captured arrays that every compile reports; else ()."""
    if sum(constant.bytes for constant in constants or ()) < _ALARM:
        return ()
    # Beside so many bytes of arrays, the rest of the executable is small.
    return (replace(sentence(constants or ()), weight=saves(1, 1)),)


def sentence(constants: Sequence[Constant]) -> Finding:
    """Returns the number and bytes of captured arrays, and the cure, in one sentence."""
    largest, total = constants[0], sum(constant.bytes for constant in constants)
    cure = ""
    if largest.bytes >= LARGE and is_cause(largest.bytes, total):
        value = "the object, as a pytree," if largest.held == "attribute" else "it"
        value = f"`{largest.argument}`" if largest.argument else value
        cure = f": pass {value} as an argument, and its values are no part of the program"
    if len(constants) == 1:
        return Finding(f"One array is closed over, {named(largest)}{cure}.")
    share = f"{largest.bytes / (total or 1):.0%}"
    return Finding(
        f"{count(len(constants), 'array')} of {amount(total)} are closed over, "
        f"{share} of it {named(largest)}{cure}."
    )


def named(constant: Constant) -> str:
    """Returns `W` (f32[64,64], 16.4 kB), a global of `f`, first read at cell 3:5."""
    text = f"`{constant.name}` ({constant.type}, {amount(constant.bytes)})"
    if constant.held:
        article = "an" if constant.held[0] in "aeiou" else "a"
        where = f" ({constant.defined})" if constant.defined else ""
        preposition = "held by" if constant.held == "closure" else "of"
        text += f", {article} {constant.held} {preposition} `{constant.holder}`{where}"
    if constant.span:
        text += f", first read at {constant.span}"
    if constant.reads > 1:
        text += f", read {constant.reads:,} times"
    return text
