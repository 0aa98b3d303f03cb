"""Explains a tracing failure: the failing line, the traced value, the steps before, a rewrite.

The exception keeps its type, message and traceback. The explanation is stored on it (`explanation`
reads it), and a summary becomes its note, which Python and IPython print below the traceback. The
explanation is computed after the failure, from the traceback and from a second trace under
`line_trace.record.Recorder`, whose printed output is discarded.
"""

import contextlib
import io
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import jax

from jaxlens.errors import LensError
from jaxlens.ir.failure import Failure, Mistake, Ran, note
from jaxlens.ir.line_trace import TracedLine
from jaxlens.stages.call import isolate
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.failure.failing_line import failing_line
from jaxlens.stages.failure.failing_value import operands, traced_value
from jaxlens.stages.failure.leaks import holder, leaked_value, reading_line
from jaxlens.stages.failure.mistakes import message_of, mistake_of
from jaxlens.stages.failure.remedies import LEAKED, hashable, remedies
from jaxlens.stages.line_trace.record import Recorder
from jaxlens.stages.trace.trace import trace

_KEPT = "_jaxlens_failure"
_OWN = str(Path(__file__).parents[2])
_CORE = str(Path(__file__).parents[2] / "core")
_PATIENCE = 5.0  # seconds; a trace that took longer is not repeated for the explanation
_STEPS = 12
_LONGEST = 160  # characters of a line
_NOT_OF_TRACING = (LensError, RecursionError, MemoryError)
_OPERANDS: tuple[Mistake, ...] = ("other", "carry", "branches", "data as key")


def explanation(error: BaseException) -> Failure | None:
    """Returns why an exception was raised during tracing; None if tracing is not its cause."""
    known: Failure | None = getattr(error, _KEPT, None)
    return known or _explained(error, error)


def explain(error: Exception, call: TraceableCall, place: ResolvedTarget, seconds: float) -> None:
    """Stores the explanation of a tracing failure on the exception, and adds the note.

    Args:
        error: The exception that tracing raised.
        call: The call that was traced.
        place: The target device.
        seconds: Seconds from the start of the trace to the exception.
    """
    if isinstance(error, LensError) or hasattr(error, _KEPT):
        return
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        # An error in the explanation must not replace the user's exception.
        if seconds < _PATIENCE:
            recorder = Recorder()
            again = _again(call, place, recorder)
            seen = again if again is not None and _alike(again, error) else None
            found = _explained(error, seen or error, recorder if seen else None, call, place)
        else:
            found = _explained(error, error)
        if found is not None:
            setattr(error, _KEPT, found)
            error.add_note(note(found))


def _alike(one: BaseException, other: BaseException) -> bool:
    """Whether two exceptions report the same failure; tracer names in the messages may differ."""
    return type(one) is type(other) and mistake_of(one) == mistake_of(other)


def _again(call: TraceableCall, place: ResolvedTarget, recorder: Recorder) -> Exception | None:
    """Traces the call again under the recorder, and returns the exception.

    Its traceback keeps JAX's own frames, whose variables include the traced value.
    """
    isolate.retire()
    try:
        with recorder.recording():
            trace(call, place, _unfiltered())
    except Exception as error:  # whatever the user's function raises
        return error
    finally:
        isolate.retire()
    return None


@contextlib.contextmanager
def _unfiltered() -> Iterator[None]:
    """Turns off JAX's traceback filtering; `isolate` restores the setting."""
    settings: Any = jax.config
    settings.update("jax_traceback_filtering", "off")
    yield


def _explained(
    error: BaseException,
    seen: BaseException,
    recorder: Recorder | None = None,
    call: TraceableCall | None = None,
    place: ResolvedTarget | None = None,
) -> Failure | None:
    """Builds the explanation of an exception; None if tracing is not its cause.

    Args:
        error: The exception that the user sees.
        seen: The same failure with an unfiltered traceback, from the second trace.
        recorder: The recorder of the second trace; None if there was none.
        call: The call that was traced; needed to try static arguments.
        place: The target device.
    """
    if isinstance(error, _NOT_OF_TRACING):
        return None
    mistake = mistake_of(error)
    if mistake == "leak":
        return _leak(error, seen, recorder, call)
    if mistake == "static" and call is not None and place is not None:
        tried = tuple(hashable(call, place))  # no line of the function has run
        return Failure(type(error).__name__, message_of(error), mistake, call.name, remedies=tried)
    line = failing_line(seen.__traceback__)
    if line is None or _is_ours(seen.__traceback__) or (mistake == "other" and not line.below):
        return None  # raised by the user's code or a library, with no frame of JAX below it
    value = traced_value(line, mistake)
    steps, skipped = _steps(recorder, line.place) if recorder is not None else ((), 0)
    return Failure(
        type(error).__name__,
        message_of(error),
        mistake,
        call.name if call is not None else line.frame.f_code.co_qualname,
        line.place,
        line.code,
        line.file.library,
        value,
        operands(line) if mistake in _OPERANDS else (),
        tuple(remedies(line, mistake, value, call, place, str(error))),
        steps,
        skipped,
    )


def _leak(
    error: BaseException, seen: BaseException, recorder: Recorder | None, call: TraceableCall | None
) -> Failure:
    """Explains a leak: a tracer used after its trace ended, in a line or as a closed-over value."""
    line = failing_line(seen.__traceback__)
    held = holder(seen.__traceback__, call.function, call.owner) if call is not None else None
    reads = reading_line(held) if held is not None else None
    place, code = (f"{reads[0].file}:{reads[0].line}", reads[1]) if reads else ("", "")
    if not place and line is not None:
        place, code = line.place, line.code
    steps, skipped = _steps(recorder, place) if recorder is not None else ((), 0)
    name = call.name if call is not None else line.frame.f_code.co_qualname if line else ""
    return Failure(
        type(error).__name__,
        message_of(error),
        "leak",
        name,
        place,
        code,
        value=leaked_value(error, held.name if held is not None else ""),
        remedies=(LEAKED,),
        steps=steps,
        skipped=skipped,
    )


def _is_ours(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame is in jaxlens, but not in `jaxlens.core`."""
    file = ""
    while traceback is not None:
        file, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    return file.startswith(_OWN) and not file.startswith(_CORE)


def _steps(recorder: Recorder, place: str) -> tuple[tuple[Ran, ...], int]:
    """Returns the last lines that ran, the failing one last, and how many ran before them."""
    ran = [
        Ran(
            f"{step.file}:{step.line}",
            _text(step),
            step.depth,
            tuple(f"{bound.name} = {bound.text}" for bound in step.bound),
            recorded,
            step.raised,
        )
        for step, recorded in recorder.unfinished()
        if step.event in ("call", "line", "resume")
    ]
    while ran and ran[-1].place != place:
        ran.pop()  # lines of callers, recorded as the exception propagated
    return tuple(ran[-_STEPS:]), max(len(ran) - _STEPS, 0)


def _text(step: TracedLine) -> str:
    """Returns the source line of a step; for a call, the `def` line below the decorators."""
    line = linecache.getline(step.key, step.line).strip()[:_LONGEST]
    if step.event != "call" or not line.startswith(("@", "#")):
        return line
    below = (linecache.getline(step.key, step.line + n).strip() for n in range(1, 20))
    return next((text for text in below if text.startswith(("def ", "async def "))), "")
