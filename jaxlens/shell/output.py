"""What a command prints or writes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxlens.errors import LensError


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
