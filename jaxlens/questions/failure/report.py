"""Why tracing a call failed, in sentences: in a view, and in a note at the end of a traceback."""

from jaxlens.program.sentences import listed
from jaxlens.questions.failure.facts import Failure, Remedy, TracedValue
from jaxlens.report import traced_again

_MOST = 3
_LONGEST = 160  # characters of a line


def where(failure: Failure) -> str:
    """The failing line: "cell 2:3: if y.sum() > 0:"."""
    code = failure.code if len(failure.code) <= _LONGEST else f"{failure.code[:_LONGEST]}..."
    line = f"{failure.place}: {code}" if failure.place else failure.name
    return f"{line} (a library's line: none of yours took part)" if failure.library else line


def why(failure: Failure) -> str:
    """Why it fails, and which value is traced; "" where the exception alone says it."""
    reason = failure.reason
    if not failure.mistake or not reason:
        return _ended(reason) if reason else ""
    value = failure.value
    if value is None or not value.type:
        return _ended(reason[:1].upper() + reason[1:])
    named = f"{value.text} is" if value.text else "The value is"
    return f"{named} a traced value of type {value.type}, and {_ended(reason)}"


def origin(value: TracedValue) -> str:
    """Where a traced value comes from; "" where that is not known."""
    # A magic names what it looks at "expression" where the user gave no name.
    function = f" of {value.function}" if value.function not in ("", "expression") else ""
    names = listed(value.arguments, _MOST)
    arguments = f"the argument{'s' * (len(value.arguments) > 1)} {names}" if names else ""
    if not value.made:
        if value.made_at:
            within = f" in {value.function}" if value.function else ""
            return f"It was made at {value.made_at}{within}."
        return f"It is {arguments}{function}." if arguments else ""
    at = f" at {value.made_at}" if value.made_at else ""
    computed = f", computed from {arguments}{function}" if arguments else ""
    return f"It was made by {value.made}{at}{computed}."


def operands(failure: Failure) -> str:
    """The arrays on the line, "" for none."""
    return f"On this line: {'; '.join(failure.operands)}." if failure.operands else ""


def advice(remedy: Remedy) -> str:
    """What a remedy does, and whether it was tried."""
    return f"{remedy.text} ({f'tried: {remedy.outcome}' if remedy.outcome else 'not tried'})"


def again(failure: Failure) -> str:
    """That the function was traced again; "" where it was not."""
    return traced_again(failure.name, failure.again)


def note(failure: Failure) -> str:
    """The failure in a few lines, for the end of a traceback."""
    lines = [
        f"jaxlens: {where(failure)}",
        why(failure),
        origin(failure.value) if failure.value else "",
        operands(failure),
    ]
    for remedy in failure.remedies[:_MOST]:
        lines += [f"{advice(remedy)}{':' if remedy.code else '.'}", f"    {remedy.code}"]
    return "\n  ".join(line for line in (*lines, again(failure)) if line.strip())


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
