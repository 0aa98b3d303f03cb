"""What a command prints or writes, and how an error of the user's code is shown."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxlens.errors import LensError
from jaxlens.tracebacks import below, user_frames


def raised(error: BaseException) -> int:
    """Shows an error of the user's code as Python would; returns the exit status."""
    shown = error.with_traceback(user_frames(below(error.__traceback__)))
    sys.excepthook(type(error), shown, shown.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def given(answer: Any, output: Path | None, rest: str = "-o page.html") -> int:
    """Prints an answer, or writes it to a page."""
    if output is not None:
        return written(answer.save, output)
    width = max(shutil.get_terminal_size((120, 24)).columns, 60)
    print(answer.text(times=True, width=width, rest=rest), flush=True)
    return 0


def written(save: Callable[[Path], Path], output: Path) -> int:
    """Writes a file, and prints its name."""
    try:
        print(save(output))
    except OSError as error:
        raise LensError(f"cannot write {output}: {error.strerror}; name another place") from None
    return 0
