"""The map of the course: lessons by part, what each needs, and what is done."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from jaxlens.course.lessons import LESSONS, PARTS, Lesson
from jaxlens.course.library import ids_of, modules
from jaxlens.course.progress_file import Record, current, join
from jaxlens.render.document import Block, Document, GraphPane, Tab, TableBlock, Tabs
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.report import Cell, Table, count
from jaxlens.views.view import View


@dataclass(frozen=True, eq=False, repr=False)
class Progress(View):
    """What a learner has done: `str(progress)` is the map as text, a notebook shows it.

    Attributes:
        record: Ids of puzzles and predictions, by what was done with them.
    """

    record: Record

    @property
    def solved(self) -> frozenset[str]:
        """Puzzles with an answer that passed."""
        return self.record.solved

    @property
    def score(self) -> int:
        """Number of puzzles solved without the solution shown."""
        return self.record.score

    @property
    def code(self) -> str:
        """One line that `jaxlens.course.paste` takes in another session."""
        return self.record.code


def progress(folder: str | os.PathLike[str] = ".") -> Progress:
    """Returns what was done so far, in this process and as the folder's file says."""
    record = current(folder)
    return Progress(None, lambda: document(record), record)


def paste(code: str, folder: str | os.PathLike[str] = ".") -> Progress:
    """Joins the progress that `Progress.code` gave in another session.

    Raises:
        OptionError: The line is not one that `code` gave.
    """
    join(code, folder)
    return progress(folder)


def document(progress: Record) -> Document:
    """Returns the map with done marks."""
    minutes = sum(lesson.minutes for lesson in LESSONS)
    heading = (
        f"{progress.score} of {count(len(modules()), 'puzzle')} solved; "
        f"{count(len(LESSONS), 'lesson')} of {minutes} minutes in all"
    )
    graph = GraphPane(
        figure(progress), "The lessons, with an arrow from each to those that need it"
    )
    tables = tuple(part_table(part, progress) for part in range(len(PARTS)))
    tabs = (Tab("Lessons", tables, in_text=True), Tab("What needs what", (graph,)))
    return Document("course", heading, (Tabs(tabs),))


def part_table(part: int, progress: Record) -> Block:
    """Returns the lessons of a part as a table."""
    rows = tuple(tuple(_row(lesson, progress)) for lesson in LESSONS if lesson.part == part)
    columns = ("", "lesson", "question", "min", "needs", "puzzles")
    return TableBlock(Table(PARTS[part], columns, rows, right=(0, 3)))


def _row(lesson: Lesson, progress: Record) -> Iterator[Cell]:
    yield Cell(str(lesson.number), lesson.number)
    yield Cell(lesson.title)
    yield Cell(lesson.question)
    yield Cell(str(lesson.minutes), lesson.minutes)
    yield Cell(", ".join(map(str, lesson.needs)) or "-")
    yield Cell(state(lesson, progress))


def state(lesson: Lesson, progress: Record) -> str:
    """Returns how many puzzles of a lesson are solved: `done`, `2 of 5`."""
    ids = ids_of(lesson.number)
    solved = sum(id in progress.solved for id in ids)
    return "done" if ids and solved == len(ids) else f"{solved} of {len(ids)}"


def figure(progress: Record) -> Figure:
    """Returns the lessons as boxes, with an edge from each to those that build on it."""
    boxes = tuple(
        Box(
            str(lesson.number),
            f"{lesson.number}. {lesson.title}",
            state(lesson, progress),
            "output" if state(lesson, progress) == "done" else "input",
            hint=lesson.question,
        )
        for lesson in LESSONS
    )
    edges = tuple(Edge(str(n), str(lesson.number)) for lesson in LESSONS for n in lesson.needs)
    return Figure((Panel("course", "The course", boxes, edges),), stage="")
