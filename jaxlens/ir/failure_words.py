"""A failure in sentences, in the words of JAX's documentation."""

from collections.abc import Mapping

from jaxlens.ir.failure import Failure, Mistake, Remedy, TracedValue

_WHY: Mapping[Mistake, str] = {
    "condition": "Python must know if it is true, to go on",
    "number": "Python must know its number",
    "shape": "Python must know its number while JAX traces: for a shape, a slice, an index or a "
    "loop",
    "size": "how many elements come out of it decides a shape, which must be known while JAX "
    "traces",
    "mask": "how many elements it selects decides a shape, which must be known while JAX traces",
    "numpy": "NumPy, or another library, asks for its numbers",
    "in place": "JAX arrays are immutable",
    "hash": "a key of a dict or a member of a set needs a hash, which a traced value has not",
    "format": "text can be made of known numbers only",
    "leak": "it is used after the trace in which it was made",
    "key as data": "a random key is no number: the functions of jax.random make numbers of it",
    "data as key": "a random key was expected here, as jax.random.key makes it",
    "static": "a static argument must be hashable: no list, dict or array",
    "carry": "what a loop carries must keep its shape and dtype",
    "branches": "all branches must give results of the same structure, shapes and dtypes",
    "other": "",
}
_NAMES_TYPES = ("carry", "branches")  # of these the message says what differs
_MOST = 3
_LONGEST = 160  # characters of a line


def where(found: Failure) -> str:
    """The failing line: "cell 2:3: if y.sum() > 0:"."""
    code = found.code if len(found.code) <= _LONGEST else f"{found.code[:_LONGEST]}..."
    line = f"{found.place}: {code}" if found.place else found.name
    return f"{line} (a library's line: none of yours took part)" if found.library else line


def why(found: Failure) -> str:
    """Why it fails, and which value is traced."""
    reason = _WHY[found.mistake]
    if not reason:
        return _ended(f"{found.error}: {found.message}")
    if found.mistake in _NAMES_TYPES:
        reason = f"{reason}. {found.message}"
    value = found.value
    if value is None or not value.type:
        return _ended(reason[:1].upper() + reason[1:])
    named = f"{value.text} is" if value.text else "The value is"
    return f"{named} a traced value of type {value.type}, and {_ended(reason)}"


def origin(value: TracedValue) -> str:
    """Where a traced value came from; "" where that is not known."""
    # A magic names what it looks at "expression" where the user gave no name.
    of = f" of {value.function}" if value.function not in ("", "expression") else ""
    arguments = _arguments(value.arguments)
    if not value.made:
        if value.made_at:
            within = f" in {value.function}" if value.function else ""
            return f"It was made at {value.made_at}{within}."
        return f"It is {arguments}{of}." if arguments else ""
    at = f" at {value.made_at}" if value.made_at else ""
    computed = f", computed from {arguments}{of}" if arguments else ""
    return f"It was made by {value.made}{at}{computed}."


def operands(found: Failure) -> str:
    """The arrays on the line, "" for none."""
    return f"On this line: {'; '.join(found.operands)}." if found.operands else ""


def advice(remedy: Remedy) -> str:
    """What a remedy does, and whether it was tried."""
    return f"{remedy.text} ({f'tried: {remedy.outcome}' if remedy.outcome else 'not tried'})"


def note(found: Failure) -> str:
    """The failure in a few lines, to stand below a traceback."""
    lines = [f"jaxlens: {where(found)}", why(found), origin(found.value) if found.value else ""]
    lines += [operands(found)]
    for remedy in found.remedies[:_MOST]:
        lines += [f"{advice(remedy)}{':' if remedy.code else '.'}", f"    {remedy.code}"]
    more = "jaxlens.explain() shows the lines that led to it." if found.steps else ""
    return "\n  ".join(line for line in (*lines, more) if line.strip())


def _arguments(names: tuple[str, ...]) -> str:
    if len(names) > _MOST:
        return f"the arguments {', '.join(names[:_MOST])} and {len(names) - _MOST} more"
    noun = "the argument" if len(names) == 1 else "the arguments"
    return f"{noun} {' and '.join(filter(None, (', '.join(names[:-1]), *names[-1:])))}" * bool(
        names
    )


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
