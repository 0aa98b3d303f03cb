"""Opens a program that is in a file or a folder."""

import os
from pathlib import Path

from jaxlens.captures import Capture, load
from jaxlens.errors import CaptureFileError
from jaxlens.ir.saved.file import LARGEST_FILE
from jaxlens.reading import read_file


def opened(path: str | os.PathLike[str]) -> Capture:
    """Opens a saved capture, a program of a record, a folder of XLA's dumps, or a module.

    Raises:
        CaptureFileError: The file cannot be read, or is a script.
        ReadError: It holds none of these.
    """
    file = Path(path)
    if file.is_dir():
        from jaxlens.capturing import capture

        return capture(str(file))
    try:
        data = read_file(file, LARGEST_FILE)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CaptureFileError(f"cannot read {file.name}: {reason}; check the path") from None
    if file.suffix == ".py":  # its text would be the error's, in the place of its name
        raise CaptureFileError(
            f"{file.name} is a script, not a program: jaxlens record -o runs/a {path} records what "
            f"it compiles, jaxlens explore {file.stem}:FUNCTION writes a function's page"
        )
    if data[:2] != b"PK":
        from jaxlens.stages.existing.program_file import of_bytes

        return of_bytes(data, None, "", file.name)
    try:
        from jaxlens.jobs.record.opened import opened_program
    except ImportError:  # no JAX here: what is in the file can be read
        return load(file)
    return opened_program(file)
