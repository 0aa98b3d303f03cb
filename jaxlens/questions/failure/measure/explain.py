"""Explains a tracing failure: the failing line, the traced value, a rewrite.

The exception keeps its type, message and traceback. The explanation is stored on it (`explanation`
reads it), and a summary becomes its note, which Python prints below the traceback. The
explanation is computed after the failure, from the traceback, with JAX's own frames in it where
jaxlens traced the call.
"""

import contextlib
import io
import os
import re
import traceback
from dataclasses import replace

import jax

from jaxlens import compat
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.errors import OWN, LensError
from jaxlens.questions.failure.facts import Failure
from jaxlens.questions.failure.measure.causes import MessageCause, cause_of
from jaxlens.questions.failure.measure.failing_line import FailingLine, failing_line
from jaxlens.questions.failure.measure.failing_value import is_tracer, operands, traced_value
from jaxlens.questions.failure.measure.leaks import holder, leaked_value, reading_line
from jaxlens.questions.failure.measure.remedies import aliases, remedies
from jaxlens.questions.failure.report import note

_KEPT = "_jaxlens_failure"
_CORE = os.path.join(OWN, "core", "")
_LONGEST_MESSAGE = 300  # characters
_NOT_OF_TRACING = (LensError, RecursionError, MemoryError)
_OPERANDS = ("", "carry", "branches", "data as key")
_DETAIL = re.compile(
    r"^(?:The (?:input carry|output of) .*|\w+ output is .* but .*)$|The problematic value .*$",
    re.MULTILINE,
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def explanation(error: BaseException) -> Failure | None:
    """Returns why JAX raised an exception; None where no more is known than it says itself."""
    stored: Failure | None = getattr(error, _KEPT, None)
    return stored or _explained(error)


def explain(
    error: Exception, call: TraceableCall | None = None, place: ResolvedTarget | None = None
) -> None:
    """Stores the explanation of a failure on the exception, and adds the note, once.

    Args:
        error: The exception that tracing or lowering raised.
        call: The call that was traced; without it the traceback alone explains.
        place: The target device.
    """
    if any(said.startswith("jaxlens: ") for said in getattr(error, "__notes__", ())):
        return
    before = len(call.tracings) if call else 0
    # An error in the explanation must not replace the user's exception.
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        if (failure := _explained(error, call, place)) is not None:
            failure = replace(failure, again=len(call.tracings) - before if call else 0)
            setattr(error, _KEPT, failure)
            error.add_note(note(failure))


def add_note(error: Exception, earlier: BaseException | None = None) -> None:
    """As `explain`, from the traceback alone, of an exception that has no explanation yet.

    Args:
        error: The exception.
        earlier: An equal one of the same call, whose notes it has, and whose explanation it gets.
    """
    if (kept := getattr(earlier, _KEPT, None)) is not None:
        setattr(error, _KEPT, kept)
    else:
        explain(error)


def noted(error: BaseException) -> str:
    """Returns the note with the explanation that an exception has; "" where it has none."""
    kept: Failure | None = getattr(error, _KEPT, None)
    return note(kept) if kept is not None else ""


def _explained(
    error: BaseException, call: TraceableCall | None = None, place: ResolvedTarget | None = None
) -> Failure | None:
    """Builds the explanation of an exception; None where no more is known than it says itself.

    Args:
        error: The exception.
        call: The call that was traced; needed to try static arguments.
        place: The target device.
    """
    if isinstance(error, _NOT_OF_TRACING):
        return None
    line = failing_line(error.__traceback__)
    message = _message_of(error)
    cause = cause_of(error, {**aliases(line), "message": message})
    if not cause.mistake:
        before = failing_line(compat.stack_before_transform(error))
        line = before if before is not None and not before.file.library else line
    name = call.name if call is not None else _traced_by(line)
    failure = Failure(type(error).__name__, message, cause.mistake, name, reason=cause.why)
    if cause.mistake == "leak":
        return _leaked(failure, error, line, call, cause)
    of_table = cause.listed or cause.mistake == "static"
    if line is None or _is_own(error):
        # Raised by the user's code or a library, with no frame of JAX below it
        return replace(failure, remedies=cause.listed) if of_table else None
    shown = operands(line, cause.shows) if cause.mistake in _OPERANDS else ()
    of_run = isinstance(error, jax.errors.JaxRuntimeError)
    if not (of_table or cause.mistake or (line.below and shown and not of_run)):
        return None
    value = traced_value(line, cause.mistake)
    cures = tuple(remedies(line, cause, value, call, place, str(error)))
    by_message = cause.mistake in ("", "static", "argument")
    if by_message or (call is None and not any(cure.outcome for cure in cures)):
        cures += cause.listed
    return replace(
        failure,
        place=line.place,
        code=line.code,
        library=line.file.library,
        value=value,
        operands=shown,
        remedies=cures,
    )


def _leaked(
    failure: Failure,
    error: BaseException,
    line: FailingLine | None,
    call: TraceableCall | None,
    cause: MessageCause,
) -> Failure:
    """Completes the explanation of a leaked tracer: the line that reads it, and its name there."""
    binding = holder(error.__traceback__, call.function, call.owner) if call else None
    reads = reading_line(binding) if binding is not None else None
    at, code = reads or ((line.place, line.code) if line is not None else ("", ""))
    value = leaked_value(error, binding.name if binding is not None else "")
    return replace(failure, place=at, code=code, value=value, remedies=cause.remedies)


def _traced_by(line: FailingLine | None) -> str:
    """Returns the name of the line's function, if a tracer among its variables shows a trace."""
    if line is None or not any(map(is_tracer, line.frame.f_locals.values())):
        return ""
    return line.frame.f_code.co_qualname


def _message_of(error: BaseException) -> str:
    """Returns the line of the message that names the types; without one, the first line."""
    text = _ADDRESS.sub("", str(error).strip()[: 10 * _LONGEST_MESSAGE])
    detail = _DETAIL.search(text)
    line = detail[0] if detail else (text.splitlines() or [""])[0]
    return line.rstrip(":") if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _is_own(error: BaseException) -> bool:
    """Whether the innermost frame is in jaxlens, but not in `jaxlens.core`."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    file = frames[-1].f_code.co_filename if frames else ""
    return file.startswith(OWN) and not file.startswith(_CORE)
