"""Opens the records of jobs: on any machine, without the devices that they ran on.

runs = jaxlens.runs("runs/a")           # a timeline of compiles
runs[3].capture                         # the program of one, for every verb
runs.diff("runs/b")                     # what another run compiled
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from jaxlens import progress
from jaxlens.captures import Capture, load
from jaxlens.errors import CaptureFileError, UnavailableError
from jaxlens.ir.facts import Stage
from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile
from jaxlens.ir.saved.file import LARGEST_FILE
from jaxlens.ir.saved.job_files import program_path, read_job
from jaxlens.jobs.record.difference import JobDifference, difference
from jaxlens.jobs.record.difference import report as difference_report
from jaxlens.jobs.record.facts import JobFacts, facts
from jaxlens.jobs.record.program_difference import StageOf
from jaxlens.jobs.record.report import report
from jaxlens.jobs.record.view import difference_document, document
from jaxlens.reading import read_file
from jaxlens.views.view import View


@dataclass(frozen=True)
class RecordedRun:
    """One compile of a record, with its process and its capture.

    Attributes:
        job: The record.
        process: The process that compiled.
        compile: What is recorded of it.
    """

    job: JobRecord
    process: ProcessRecord
    compile: RecordedCompile

    @property
    def function(self) -> str:
        """Name of the function."""
        return self.compile.call.function

    @property
    def reason(self) -> str:
        """Why it compiled: what differs from the nearest earlier call, in one line."""
        return self.compile.call.reason

    @property
    def seconds(self) -> float:
        """Seconds of tracing, lowering and compiling."""
        return self.compile.call.seconds

    @property
    def bytes(self) -> int | None:
        """What the program takes of a device's memory, by XLA's sizes."""
        return self.compile.bytes

    @cached_property
    def capture(self) -> Capture:
        """The program, with every stage that the record has.

        Raises:
            UnavailableError: The record has no program of this compile.
        """
        name = self.compile.program
        if not name or name not in self.job.programs:
            note = self.compile.note or "the job ended before it was written"
            raise UnavailableError(f"the record has no program of this compile: {note}")
        return opened(program_path(Path(self.job.name), name))

    def __repr__(self) -> str:
        where = f"process {self.process.process.index}"
        return f"<compile {self.compile.number} of {self.function} in {where}: {self.reason}>"


class RecordedRuns(View[JobFacts]):
    """The record of a job; `runs[i]` is a compile, in order of its table."""

    def __len__(self) -> int:
        return len(self.facts.rows)

    def __getitem__(self, index: int) -> RecordedRun:
        row = self.facts.rows[index]
        return RecordedRun(self.facts.job, row.process, row.compile)

    def __iter__(self) -> Iterator[RecordedRun]:
        return (self[i] for i in range(len(self)))

    def save(self, path: str | os.PathLike[str], *, picture: str = "", programs: int = 0) -> Path:
        """Writes the view to a file, in the format of its suffix; see `View.save`.

        Args:
            path: Name of the file.
            picture: One of `pictures`; "" for the first.
            programs: Of how many programs a page is written into a folder beside an HTML page,
                which links to them.

        Returns:
            The path.

        Raises:
            OptionError: The suffix is none that a view is saved as.
        """
        path = Path(path)
        if path.suffix.lower() != ".html" or not programs:
            return super().save(path, picture=picture)
        pages = self._pages(path.with_name(f"{path.stem}-programs"), programs)
        return View.of(replace(self.facts, pages=pages), document, report).save(path)

    def _pages(self, folder: Path, most: int) -> dict[str, str]:
        """Writes pages about programs; returns their addresses by the program's name."""
        from jaxlens.viewer.panes import OPTIONS
        from jaxlens.viewer.show import verb

        pages: dict[str, str] = {}
        for run in self:
            name = run.compile.program
            if len(pages) < most and name in run.job.programs and name not in pages:
                folder.mkdir(exist_ok=True)
                with progress.step(f"jaxlens writes the page of {run.function}"):
                    shown = verb("explore", run.capture, OPTIONS["explore"]())
                    shown.save(folder / f"{name}.html")
                pages[name] = f"{folder.name}/{name}.html"
        return pages

    def diff(self, other: "str | os.PathLike[str] | RecordedRuns") -> View[JobDifference]:
        """What another run compiled: programs, seconds and memory, function by function.

        Args:
            other: Its record, or the folder of it.
        """
        second = other if isinstance(other, RecordedRuns) else runs(other)
        first, then = (_stages(Path(facts.job.name)) for facts in (self.facts, second.facts))
        # A program's name is a hash of its text: it is the same in both records.
        known = difference(
            self.facts, second.facts, lambda name, stage: first(name, stage) or then(name, stage)
        )
        return View.of(known, difference_document, difference_report)


def runs(path: str | os.PathLike[str]) -> RecordedRuns:
    """Opens the record of a job: what its processes compiled, when, why, and how large it is.

        runs = jaxlens.runs("runs/a")
        runs                        # the timeline
        runs[3].capture             # the program of one compile, for every verb
        runs.diff("runs/b")

    It needs no device, and can be read while the job goes on. Where the processes of one job
    compiled programs together, the answer says whether these were the same.

    Args:
        path: The folder that `jaxlens record -o` or `jaxlens.record` wrote.

    Returns:
        An answer with `.rows` (each with `.compile` and `.process`), `.functions`, `.seconds`,
        `.mismatch` (the first program that was not the same in all processes, or None), and the
        compiles by index.

    Raises:
        CaptureFileError: The folder is no record.
    """
    return RecordedRuns.of(facts(read_job(path), _stages(Path(path))), document, report)


def _stages(root: Path) -> StageOf:
    """Returns what gives the stage of a program; None for a program that is not there."""

    def stage_of(name: str, stage: str) -> Stage | None:
        try:
            return load(program_path(root, name)).stage(stage)
        except (CaptureFileError, UnavailableError):
            return None

    return stage_of


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
