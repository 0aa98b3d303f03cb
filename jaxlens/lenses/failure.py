"""Why tracing failed, in the words of JAX's documentation: the line, the traced value, the cure."""

from collections.abc import Iterator, Mapping

from jaxlens.ir.failure import Failure, Mistake, Ran, Remedy, TracedValue
from jaxlens.lenses.report import Cell, Finding, Report, Table, count
from jaxlens.lenses.sentences import listed

_WHY: Mapping[Mistake, str] = {
    "condition": "Python must know if it is true, to decide what to trace",
    "number": "Python must know its number",
    "shape": "its number decides a shape, a slice, a loop or an index of Python's, which must be "
    "known while JAX traces",
    "mask": "how many elements it selects decides a shape, which must be known while JAX traces",
    "numpy": "NumPy needs its numbers",
    "in place": "JAX arrays are immutable",
    "hash": "a dict key or member of a set must have a hash, and a traced value has no number to "
    "make one of",
    "format": "text can be made of numbers only",
    "leak": "a traced value exists only while its function is traced",
    "key as data": "a random key is no number: jax.random's functions make numbers of it",
    "data as key": "a random key comes from jax.random.key(seed)",
    "static": "a static argument is looked up by its hash, and a list, dict or array has none",
    "carry": "what a loop hands from one step to the next keeps its shape and dtype",
    "branches": "both branches must give results of the same shape and dtype",
    "other": "",
}


def failure(found: Failure) -> Report:
    """The report: where and why, what to write instead, and the lines that ran until then."""
    rest = (*map(_remedy, found.remedies),)
    return Report(
        f"Why tracing {found.name} failed", (*findings(found), *rest), tuple(tables(found))
    )


def _remedy(remedy: Remedy) -> Finding:
    words = f"{advice(remedy)}: {remedy.code}" if remedy.code else f"{advice(remedy)}."
    return Finding(words, "measured" if remedy.outcome else "unknown")


def findings(found: Failure) -> Iterator[Finding]:
    """The line and why it failed, then which value is traced."""
    for sentence in filter(None, (where(found), _value(found), _operands(found))):
        yield Finding(sentence, "traced")


def where(found: Failure) -> str:
    """The failing line, and why it fails."""
    line = f"{found.place}: {found.code}" if found.place else found.name
    whose = " (a library's line: none of yours took part)" if found.library else ""
    why = _WHY[found.mistake] or found.message
    return f"{line}{whose} -- {why}"


def _value(found: Failure) -> str:
    """Which value is traced, and where it came from."""
    value = found.value
    if value is None:
        return ""
    named = f"{value.text} is" if value.text else "The value is"
    origin = "; ".join(filter(None, (_made(value), _arguments(value))))
    return f"{named} a traced value of type {value.type}{': ' + origin if origin else ''}."


def _made(value: TracedValue) -> str:
    if not value.made:
        return ""
    return f"made by {value.made}" + (f" at {value.made_at}" if value.made_at else "")


def _arguments(value: TracedValue) -> str:
    if not value.arguments:
        return ""
    noun = "the argument" if len(value.arguments) == 1 else "the arguments"
    of = f" of {value.function}" if value.function else ""
    how = "computed from" if value.made else "it is"
    return f"{how} {noun} {listed(value.arguments)}{of}"


def _operands(found: Failure) -> str:
    return f"On this line: {'; '.join(found.operands)}." if found.operands else ""


def advice(remedy: Remedy) -> str:
    """What a remedy does, and whether it was tried."""
    return f"{remedy.text} ({f'tried: {remedy.outcome}' if remedy.outcome else 'not tried'})"


def note(found: Failure) -> str:
    """The same in a few lines, to stand below a traceback in a terminal."""
    lines = [f"jaxlens: {where(found)}", _value(found), _operands(found)]
    for remedy in found.remedies[:2]:
        lines += [f"{advice(remedy)}{':' if remedy.code else '.'}", f"    {remedy.code}"]
    more = "jaxlens.explain() shows the lines that led to it."
    return "\n  ".join([*filter(str.strip, lines), more])


def tables(found: Failure) -> Iterator[Table]:
    """The lines that ran, the failing one last."""
    if not found.steps:
        return
    rows = tuple(_row(step) for step in found.steps)
    left = f"{count(found.skipped, 'line')} before these ran too. " if found.skipped else ""
    yield Table(
        "The lines that were traced, until one failed",
        ("line", "code", "bound", "recorded"),
        rows,
        f"{left}A tracer stands for a value that is known when the program runs.",
    )


def _row(step: Ran) -> tuple[Cell, ...]:
    recorded = f"raises {step.raised}" if step.raised else "; ".join(step.recorded)
    code = "  " * min(step.depth, 8) + step.code
    return Cell(step.place), Cell(code), Cell("; ".join(step.bound)), Cell(recorded)
