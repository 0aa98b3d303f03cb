"""The map of the course: lessons by part, what each needs, and what is done."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxlens.course.attempts import FILE, Attempt, first_tries, read
from jaxlens.course.library import ids_of, modules
from jaxlens.course.progress_file import Record, current, join
from jaxlens.ir.lessons import BY_NUMBER, LESSONS, PARTS, Lesson
from jaxlens.render.document import Block, Document, GraphPane, Tab, TableBlock, Tabs
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.report import Cell, CellLink, Table, count
from jaxlens.views.view import View


@dataclass(frozen=True, eq=False, repr=False)
class Progress(View[Any]):
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
    firsts = first_tries(read(Path(folder) / FILE))
    return Progress(None, lambda: document(record, list(firsts.values())), record)


def paste(code: str, folder: str | os.PathLike[str] = ".") -> Progress:
    """Joins the progress that `Progress.code` gave in another session.

    Raises:
        OptionError: The line is not one that `code` gave.
    """
    join(code, folder)
    return progress(folder)


def document(progress: Record, firsts: Sequence[Attempt] = ()) -> Document:
    """Returns the map with done marks.

    Args:
        progress: What is done.
        firsts: The first answer to each puzzle and prediction.
    """
    minutes = sum(lesson.minutes for lesson in LESSONS)
    solved = progress.solved & modules().keys()
    shown = len(solved & progress.revealed)
    with_help = f", {shown} of them with the solution shown" if shown else ""
    heading = (
        f"{len(solved)} of {count(len(modules()), 'puzzle')} solved{with_help}; "
        f"{count(len(LESSONS), 'lesson')} of {minutes} minutes in all"
    )
    if firsts:
        right = sum(attempt.right for attempt in firsts)
        heading += f"; {right} of {count(len(firsts), 'answer')} right at the first try"
    graph = GraphPane(
        figure(progress), "The lessons, with an arrow from each to those that need it"
    )
    tables = tuple(part_table(part, progress) for part in range(len(PARTS)))
    needs = TableBlock(Table("The same as a table", *_needs()))
    tabs = (Tab("Lessons", tables, in_text=True), Tab("What needs what", (graph, needs)))
    return Document("course", heading, (Tabs(tabs),))


def part_table(part: int, progress: Record) -> Block:
    """Returns the lessons of a part as a table."""
    rows = tuple(tuple(_row(lesson, progress)) for lesson in LESSONS if lesson.part == part)
    columns = ("", "lesson", "question", "min", "needs", "puzzles")
    return TableBlock(Table(PARTS[part], columns, rows, right=(0, 3)))


def _row(lesson: Lesson, progress: Record) -> Iterator[Cell]:
    yield Cell(str(lesson.number), lesson.number)
    yield Cell(lesson.title, links=(_link(lesson, lesson.title),))
    yield Cell(lesson.question)
    yield Cell(str(lesson.minutes), lesson.minutes)
    needs = [BY_NUMBER[n] for n in lesson.needs]
    numbers = ", ".join(str(need.number) for need in needs) or "-"
    yield Cell(numbers, links=tuple(_link(need, str(need.number)) for need in needs))
    yield Cell(state(lesson, progress))


def _needs() -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """Returns columns and rows: each lesson, what it needs, and what needs it."""
    rows = tuple(
        (
            _names([lesson]),
            _names([BY_NUMBER[n] for n in lesson.needs]),
            _names([other for other in LESSONS if lesson.number in other.needs]),
        )
        for lesson in LESSONS
    )
    return ("lesson", "needs", "is needed by"), rows


def _names(lessons: Sequence[Lesson]) -> Cell:
    names = [(lesson, f"{lesson.number}. {lesson.title}") for lesson in lessons]
    links = tuple(_link(lesson, name) for lesson, name in names)
    return Cell(", ".join(name for _, name in names) or "-", links=links)


def _link(lesson: Lesson, text: str) -> CellLink:
    label = "" if lesson.title in text else f"{lesson.number}. {lesson.title}"
    return CellLink(text, f"{lesson.file}.ipynb", label)


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
            name := f"{lesson.number}. {lesson.title}",
            state(lesson, progress),
            "output" if state(lesson, progress) == "done" else "input",
            hint=f"{name}: {lesson.question}",
            link=f"{lesson.file}.ipynb",
        )
        for lesson in LESSONS
    )
    edges = tuple(Edge(str(n), str(lesson.number)) for lesson in LESSONS for n in lesson.needs)
    return Figure((Panel("course", "The course", boxes, edges),), stage="")
