"""Opens a program that is in a file, a folder or the record of a job."""

import os
from pathlib import Path

from jaxlens.captures import Capture, capture_of, load_with
from jaxlens.errors import CaptureFileError
from jaxlens.ir.record import JobRecord
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.file import LARGEST_FILE
from jaxlens.ir.saved.job_files import is_record, read_job, read_program
from jaxlens.reading import read_file


def opened(path: str | os.PathLike[str]) -> Capture:
    """Opens a saved capture, a folder of XLA's dumps, a module, or a program of a record.

    That is the record's folder and the first letters of the program's name: "runs/a/1f3a9c2e".

    Raises:
        CaptureFileError: The file cannot be read, or is a script.
        ReadError: It holds none of these.
    """
    file = Path(path)
    if file.is_dir():
        from jaxlens.capturing import capture

        return capture(str(file))
    if not file.exists() and is_record(file.parent):
        job = read_job(file.parent)
        names = [name for name in job.programs if name.startswith(file.name)]
        return recorded(job, names[0] if len(names) == 1 else file.name)
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
    return load_with(file, _driver())


def recorded(job: JobRecord, name: str) -> Capture:
    """Opens a program of a record.

    Raises:
        CaptureFileError: The record has none of this name, or it is damaged.
    """
    return capture_of(read_program(job, name), _driver())


def _driver() -> type[SavedDriver]:
    try:
        from jaxlens.jobs.record.opened import ProgramOfRecord
    except ImportError:  # no JAX here: what is in the file can be read
        return SavedDriver
    return ProgramOfRecord
