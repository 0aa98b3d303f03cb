"""Explains why tracing failed, from what the exception's traceback still holds.

The exception is the user's: its type, message and traceback stay as they are. What is found out
is kept beside it (`explanation`).
"""

from jaxlens.ir.failure import Failure
from jaxlens.stages.failing_line import failing_line

_KEPT = "_jaxlens_failure"


def explanation(error: BaseException) -> Failure | None:
    """Why an exception was raised while JAX traced; None where tracing has no part in it."""
    known: Failure | None = getattr(error, _KEPT, None)
    return known or explained(error)


def explained(error: BaseException, name: str = "") -> Failure | None:
    """The same, worked out from the traceback."""
    line = failing_line(error.__traceback__)
    if line is None:
        return None
    message = (str(error).strip().splitlines() or [""])[0]
    return Failure(
        error=type(error).__name__,
        message=message,
        mistake="other",
        name=name or line.frame.f_code.co_qualname,
        place=line.place,
        code=line.code,
        library=line.file.library,
    )
