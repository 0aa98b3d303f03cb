"""The map of the course: lessons by part, what each needs, and what is done."""

from collections.abc import Iterator

from jaxlens.course.lessons import LESSONS, PARTS, Lesson
from jaxlens.course.library import modules
from jaxlens.course.progress_file import Progress
from jaxlens.render.document import Block, Document, GraphPane, Tab, TableBlock, Tabs
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.report import Cell, Table, count


def document(progress: Progress) -> Document:
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


def part_table(part: int, progress: Progress) -> Block:
    """Returns the lessons of a part as a table."""
    rows = tuple(tuple(_row(lesson, progress)) for lesson in LESSONS if lesson.part == part)
    columns = ("", "lesson", "question", "min", "needs", "puzzles")
    return TableBlock(Table(PARTS[part], columns, rows, right=(0, 3)))


def _row(lesson: Lesson, progress: Progress) -> Iterator[Cell]:
    yield Cell(str(lesson.number), lesson.number)
    yield Cell(lesson.title)
    yield Cell(lesson.question)
    yield Cell(str(lesson.minutes), lesson.minutes)
    yield Cell(", ".join(map(str, lesson.needs)) or "-")
    yield Cell(state(lesson, progress))


def state(lesson: Lesson, progress: Progress) -> str:
    """Returns how many puzzles of a lesson are solved: `done`, `2 of 5`."""
    ids = [id for id in modules() if id.split(".")[0] == str(lesson.number)]
    solved = sum(id in progress.solved for id in ids)
    return "done" if ids and solved == len(ids) else f"{solved} of {len(ids)}"


def figure(progress: Progress) -> Figure:
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
