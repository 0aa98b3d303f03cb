"""Builds the notebooks of the course from their text sources.

A source is Markdown with Python cells, as jupytext reads it. The build adds the heading from THE
TABLE of lessons, the cell of imports, each puzzle's task and starter (or solution), and the way
to the next lesson. Nobody edits a notebook by hand.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jaxlens.course.library import ids_of, puzzle
from jaxlens.course.predict import Prediction, predictions
from jaxlens.errors import GraphError, OptionError, UnavailableError, missing_package
from jaxlens.ir.lessons import BY_NUMBER, LESSONS, PARTS, Lesson
from jaxlens.ir.saved.file import write_whole
from jaxlens.render.graph import graphviz_run
from jaxlens.report import count

SETUP = """\
%load_ext jaxlens

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp"""

_DEVICES = '\n\njax.config.update("jax_num_cpu_devices", 8)  # this CPU as eight devices'

_INDEX = """\
# JAX, step by step

Your function becomes a jaxpr, then StableHLO, then HLO, and then machine code. In this course you
read each of them, predict what comes next, and solve puzzles that **the compiler judges**.

You need to know NumPy, but no JAX. Take the lessons in order, or follow *What needs what* below.
In each:

- **Predict** before you look: write your answer under `%%predict` in place of the dots, and run it.
- **Solve**: change the cell under `%%puzzle` until JAX and XLA agree. `%hint 9.1` gives a hint;
  there are three, each more specific. `%reveal 9.1` shows a solution.
- Along the way you write **a JAX of your own**. It grows in `my_jax.py`, and in the end XLA
  compiles what it traced and differentiated."""

_PASTE = """\
What you solve is written to `.jaxlens-progress.json` in this folder. A Binder session forgets the
folder when it ends: copy the line that `jaxlens.course.progress().code` shows, and next time paste
it with `jaxlens.course.paste("...")`."""

DRAWINGS = "drawings"  # the folder of them, beside the lessons

# A drawing in a source: what it shows, in a comment, and the statements of a DOT graph.
_DRAWING = re.compile(r"^```dot\n// (.++)\n((?:(?!```).*+\n)++)```$", re.MULTILINE)
_STYLE = """
rankdir=LR; bgcolor=white; pad=0.2; nodesep=0.2; ranksep=0.35; color="#7d858e"
fontname=Helvetica; fontsize=12; fontcolor="#1b1f24"
node [shape=box, style="rounded,filled", fillcolor="#f1f4f8", color="#7d858e", fontname=Helvetica,
      fontsize=12, fontcolor="#1b1f24", margin="0.11,0.06", height=0.3]
edge [color="#555d66", fontname=Helvetica, fontsize=11, fontcolor="#555d66", arrowsize=0.7]
"""
_NOT_SEEN = re.compile(r"\A(?:(?!<svg).*+\n)++|<!--(?:(?!-->).)*+-->\n|<title>[^<]*+</title>\n")

# nbgrader's marks: what is between them is taken out for a class.
_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"


def sources() -> Path:
    """Returns the folder of sources: inside the wheel, or in a checkout.

    Raises:
        UnavailableError: This installation holds none.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "lessons" / "source", package.parent / "notebooks" / "source"):
        if folder.is_dir():
            return folder
    raise UnavailableError(
        "this installation holds no sources of lessons; install jaxlens from a wheel or a clone"
    )


def build(
    folder: Path, *, solved: bool = False, lessons: tuple[int, ...] = (), keep: bool = False
) -> list[Path]:
    """Writes the notebooks of lessons, without outputs.

    Args:
        folder: Where they go.
        solved: Whether puzzle cells hold solutions, between nbgrader's marks, and predictions
            the truth, computed now.
        lessons: Numbers; empty for all, with the map and the page of HLO ops.
        keep: As in `write`.

    Returns:
        The files written, in the order of the course.

    Raises:
        OptionError: As in `write`.
    """
    books: dict[str, Callable[[], Any]] = {
        f"{lesson.file}.ipynb": partial(notebook, lesson, solved=solved)
        for lesson in LESSONS
        if not lessons or lesson.number in lessons
    }
    if not lessons:
        books |= {"index.ipynb": index, "hlo_ops.ipynb": hlo_ops_page}
    return write(folder, books, keep=keep)


def write(folder: Path, books: Mapping[str, Callable[[], Any]], *, keep: bool) -> list[Path]:
    """Writes notebooks into a folder and returns their paths.

    Args:
        folder: Made where it is missing.
        books: What makes each notebook, by file name.
        keep: Whether a file that is there stays as it is; it is not built then.

    Raises:
        OptionError: The folder cannot be written.
    """
    paths = [folder / name for name in books if not (keep and (folder / name).exists())]
    if not paths:
        return []
    try:
        import nbformat
    except ImportError as error:
        raise missing_package("jaxlens course", error) from None
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            book = books[path.name]()
            drawings = _draw(book, path.stem[:2])
            text = nbformat.writes(book)
            if keep and path.exists():  # a second process fills the same folder at this moment
                continue
            # Whole or not at all: what is there is kept, so half a lesson would stay so for ever.
            for name, drawing in drawings.items():
                (folder / DRAWINGS).mkdir(exist_ok=True)
                write_whole(folder / DRAWINGS / name, drawing.encode())
            write_whole(path, f"{text}\n".encode())
            written.append(path)
    except OSError as error:
        raise OptionError(
            f"cannot write the course into {folder} ({error.strerror}); name a folder of yours"
        ) from None
    return written


def set_up(folder: Path) -> list[Path]:
    """Writes the blank course and the tour where they are missing, and returns what it wrote.

    Raises:
        OptionError: As in `write`.
    """
    return [*build(folder, keep=True), *write(folder, {"00_tour.ipynb": tour}, keep=True)]


def tour() -> Any:
    """Returns the notebook that shows jaxlens without a course."""
    return _book(0, _cells("00_tour"))


def hlo_ops_page() -> Any:
    """Returns the notebook that lists HLO's ops, each with an example."""
    return _book(0, _cells("hlo_ops"))


def _cells(name: str) -> list[Any]:
    """Returns the cells of a source.

    Raises:
        PackageError: jupytext is not installed.
        UnavailableError: This installation holds no sources.
    """
    try:
        import jupytext
    except ImportError as error:
        raise missing_package("jaxlens course", error) from None
    return list(jupytext.reads((sources() / f"{name}.md").read_text("utf-8"), "md").cells)


def _draw(book: Any, lesson: str) -> dict[str, str]:
    """Replaces each drawing in a notebook by a link to a file, and returns the files.

    They are no attachments of the cells, of which JupyterLab shows no SVG. Where Graphviz does not
    work, what the drawing shows stands in its place.
    """
    drawings: dict[str, str] = {}

    def linked(found: re.Match[str]) -> str:
        shows, statements = found.groups()
        try:
            svg = graphviz_run.run(f"digraph {{{_STYLE}{statements}}}", form="svg").decode()
        except (GraphError, TimeoutError):
            return f"*{shows}*"
        name = f"{lesson}-{len(drawings) + 1}.svg"
        drawings[name] = _NOT_SEEN.sub("", svg)
        return f"![{shows}]({DRAWINGS}/{name})"

    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = _DRAWING.sub(linked, cell.source)
    return drawings


def index() -> Any:
    """Returns the notebook that links to the lessons and shows what is done."""
    from nbformat.v4 import new_code_cell, new_markdown_cell

    cells = [new_markdown_cell(_INDEX)]
    for part, title in enumerate(PARTS):
        rows = [
            f"| {link(lesson)} | {lesson.question} | {lesson.minutes} |"
            for lesson in LESSONS
            if lesson.part == part
        ]
        table = "\n".join(["| lesson | question | minutes |", "|---|---|--:|", *rows])
        cells.append(new_markdown_cell(f"## {title}\n\n{table}"))
    cells.append(new_markdown_cell("## What you have done"))
    cells.append(new_code_cell("%load_ext jaxlens\n\nimport jaxlens\n\njaxlens.course.progress()"))
    cells.append(new_markdown_cell(_PASTE))
    return _book(0, cells)


def notebook(lesson: Lesson, *, solved: bool) -> Any:
    """Returns the notebook of one lesson.

    Args:
        lesson: Its row in THE TABLE.
        solved: As in `build`.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell

    setup = SETUP + (_DEVICES if lesson.number == 28 else "")
    if lesson.number > 1:
        setup += f"\n\n%predict {lesson.number}  # do you still know?"
    cells = [new_markdown_cell(heading(lesson)), new_code_cell(setup)]
    for cell in _cells(lesson.file):
        words = cell.source.split()
        if words[:1] == ["%%puzzle"] and len(words) == 2:
            exercise = puzzle(words[1])
            title = f"## Puzzle {exercise.id}: {exercise.title}\n\n{exercise.task.strip()}"
            code = exercise.starter.strip("\n")
            if solved:
                code = f"{_BEGIN}\n{exercise.solution.strip(chr(10))}\n{_END}"
            cells.append(new_markdown_cell(title))
            code = f"%%puzzle {exercise.id}\n{code}"
            cells.append(new_code_cell(code, metadata=cell.metadata))
        elif words[:1] == ["%%predict"] and len(words) == 2:
            answer, prediction = "...", predictions()[words[1]]
            if solved:
                answer = str(prediction.truth(prediction.names()).value)
            code = f"%%predict {words[1]}\n{answer}"
            cells.append(new_markdown_cell(asked(prediction)))
            cells.append(new_code_cell(code, metadata=cell.metadata))
        else:
            cells.append(cell)
    cells.append(new_markdown_cell(footer(lesson)))
    return _book(lesson.number, cells)


def asked(prediction: Prediction) -> str:
    """Returns a prediction as Markdown: its question, the program and the choices."""
    choices = ", ".join(f"`{choice}`" for choice in prediction.choices)
    one_of = f"\n\nOne of: {choices}." if choices else ""
    program = prediction.code.strip("\n")
    heading = f"**Prediction {prediction.id}.** {prediction.question}"
    return f"{heading}\n\n```python\n{program}\n```{one_of}"


def _book(lesson: int, cells: list[Any]) -> Any:
    """Returns a notebook of these cells; their ids are the same from build to build."""
    from nbformat.v4 import new_notebook

    for number, cell in enumerate(cells):
        cell.id = f"{lesson:02}-{number:02}"
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )


def heading(lesson: Lesson) -> str:
    """Returns the first cell of a lesson: its question, its minutes and what it needs."""
    needs = ", ".join(link(BY_NUMBER[n]) for n in lesson.needs) or "NumPy, and no JAX"
    puzzles = count(len(ids_of(lesson.number)), "puzzle")
    minutes = f"{lesson.minutes} minutes"
    minutes += f", and {lesson.extra} for what is extra" if lesson.extra else ""
    return (
        f"# {lesson.number}. {lesson.title}\n\n"
        f"**{lesson.question}**\n\n"
        f"{PARTS[lesson.part]} · {minutes} · {puzzles} · builds on {needs} · "
        f"[map of the course](index.ipynb)"
    )


def footer(lesson: Lesson) -> str:
    """Returns the last cell of a lesson: where to go on."""
    after = BY_NUMBER.get(lesson.number + 1)
    onward = f"Next: {link(after)}." if after else "That was the last lesson."
    return f"---\n\n{onward} What you have done so far: `jaxlens.course.progress()`."


def link(lesson: Lesson) -> str:
    """Returns a Markdown link to a lesson."""
    return f"[{lesson.number}. {lesson.title}]({lesson.file}.ipynb)"
