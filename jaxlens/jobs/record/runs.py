"""Opens the records of jobs: on any machine, without the devices that they ran on.

runs = jaxlens.runs("runs/a")           # a list of compiles
runs[3].capture                         # the program of one, for every verb
runs.diff("runs/b")                     # what another run compiled
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from jaxlens.captures import capture_of
from jaxlens.errors import CaptureFileError, UnavailableError
from jaxlens.ir.facts import Stage
from jaxlens.ir.record import JobRecord
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.job_files import read_job, read_program
from jaxlens.jobs.record import difference as differences
from jaxlens.jobs.record.difference import JobDifference, difference
from jaxlens.jobs.record.facts import CompileRow, JobFacts, facts
from jaxlens.jobs.record.program_difference import StageOf
from jaxlens.jobs.record.report import document, report
from jaxlens.views.view import View


class RecordedRuns(View[JobFacts]):
    """The record of a job; `runs[i]` is a compile, in order of its table."""

    def __len__(self) -> int:
        return len(self.facts.rows)

    def __getitem__(self, index: int) -> CompileRow:
        return self.facts.rows[index]

    def __iter__(self) -> Iterator[CompileRow]:
        return iter(self.facts.rows)

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
            if len(pages) < most and name in self.facts.job.programs and name not in pages:
                folder.mkdir(exist_ok=True)
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
        # A program's name is a hash of its text: it is the same in both records.
        stages = _stages(self.facts.job, second.facts.job)
        known = difference(self.facts, second.facts, stages)
        return View.of(known, differences.document, differences.report)


def runs(path: str | os.PathLike[str]) -> RecordedRuns:
    """Opens the record of a job: what its processes compiled, when, why, and how large it is.

        runs = jaxlens.runs("runs/a")
        runs                        # the list
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
    job = read_job(path)
    return RecordedRuns.of(facts(job, _stages(job)), document, report)


def _stages(*jobs: JobRecord) -> StageOf:
    """Returns what gives the stage of a program; None for a program that is in no record."""

    def stage_of(name: str, stage: str) -> Stage | None:
        for job in jobs:
            with suppress(CaptureFileError, UnavailableError):
                return capture_of(read_program(job, name), SavedDriver).stage(stage)
        return None

    return stage_of
