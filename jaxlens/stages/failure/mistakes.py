"""Classifies tracing errors by the exception's type and message."""

import re

from jaxlens.ir.failure import Mistake

_BY_TYPE: dict[str, Mistake] = {
    "TracerBoolConversionError": "condition",
    "TracerIntegerConversionError": "shape",
    "TracerArrayConversionError": "numpy",
    "NonConcreteBooleanIndexError": "mask",
    "UnexpectedTracerError": "leak",
}
# Tried in order, for messages of jax 0.10.2 to 0.12.0.1 and of jaxlens.core.
_BY_MESSAGE: tuple[tuple[str, Mistake], ...] = (
    (r"\bsize argument\b", "size"),
    (r"problem arose with the `(int|float|complex|bool)` function|\bitem\(\)", "number"),
    (r"asks for (int|float|complex|\.item)\b", "number"),
    (r"Shapes must be 1D sequences of concrete|must (have|be) static|integer that Python", "shape"),
    (r"Abstract tracer value encountered", "shape"),
    (r"immutable and do not support|has no item assignment", "in place"),
    (r"unhashable type: '?\w*Trace", "hash"),
    (r"unsupported format string passed to \w*Trace", "format"),
    (r"carry input and carry output must have equal types|\bcarry must keep", "carry"),
    (r"(cond|switch) branch(es| outputs)|the branches must return equal", "branches"),
    (r"Non-hashable static arguments", "static"),
    (r"invalid PRNG key data|PRNG key type|expected a (PRNG )?key", "data as key"),
    (r"\bkey<\w+>|PRNGKeyArray", "key as data"),
)
_DETAIL = re.compile(
    r"^(?:The (?:input carry|output of) .*|\w+ output is .* but .*)$", re.MULTILINE
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONGEST = 300


def mistake_of(error: BaseException) -> Mistake:
    """Returns the kind of mistake; "other" if unrelated to tracing, such as a shape mismatch."""
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_TYPE:
            return _BY_TYPE[kind.__name__]
    message = str(error)
    return next((known for words, known in _BY_MESSAGE if re.search(words, message)), "other")


def message_of(error: BaseException) -> str:
    """Returns the line of the message that names the types; without one, the first line."""
    text = _ADDRESS.sub("", str(error).strip()[: 10 * _LONGEST])
    detail = _DETAIL.search(text)
    line = detail[0] if detail else (text.splitlines() or [""])[0]
    return line.rstrip(":") if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
