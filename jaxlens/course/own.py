"""The learner's own JAX: answers of the core track, gathered in `my_jax.py` beside the lessons.

Each puzzle of the track has a section in the file. A later puzzle starts from the sections before
it: the learner's where they were solved, the course's solutions elsewhere.
"""

import re
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxlens.course.errors import user_error
from jaxlens.course.library import puzzles
from jaxlens.course.puzzle import Puzzle
from jaxlens.errors import OptionError, missing_package
from jaxlens.ir.saved.file import write_whole
from jaxlens.reading import read_file

FILE = "my_jax.py"
_LARGEST = 16 << 20  # bytes of it

_HEAD = '"""A JAX in miniature, written in the course of jaxlens, one puzzle after another."""\n'
_RESULT = re.compile(
    r"^ *func\.func (?:public )?@main\(.*\) -> \(?tensor<((?:\d+x)*)f32>", re.MULTILINE
)
_SECTION = re.compile(r"^# puzzle (\d+\.\d+): (.*)\n", re.MULTILINE)


def track() -> tuple[Puzzle, ...]:
    """Returns the puzzles of the core track in order; none of them needs JAX to be imported."""
    return tuple(entry for entry in puzzles() if entry.saves)


def sections(path: Path) -> dict[str, str]:
    """Returns the learner's sections by puzzle id; none where there is no file.

    A section is found by its title, as puzzles had other numbers in earlier courses.

    Raises:
        OptionError: The file cannot be read.
    """
    try:
        text = decode_source(read_file(path, _LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, SyntaxError, ValueError) as error:
        raise _unusable(
            f"cannot be read ({getattr(error, 'strerror', 'it is not UTF-8')})"
        ) from None
    ids = {entry.saves: entry.id for entry in track()}
    parts = _SECTION.split(text)[1:]
    found = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {ids.get(title, id): text.strip("\n") + "\n" for id, title, text in found}


def save(puzzle: Puzzle, code: str, folder: str | Path = ".") -> Path:
    """Writes an answer into its section, and returns the file.

    Raises:
        OSError: The folder cannot be written.
        OptionError: The file that is there cannot be read.
    """
    path = Path(folder) / FILE
    texts = sections(path) | {puzzle.id: code.strip("\n") + "\n"}
    ordered = [entry for entry in track() if entry.id in texts]
    body = [f"\n\n# puzzle {entry.id}: {entry.saves}\n{texts[entry.id]}" for entry in ordered]
    write_whole(path, (_HEAD + "".join(body)).encode())
    return path


def names_before(puzzle: Puzzle, folder: str | Path | None = ".") -> dict[str, Any]:
    """Runs the sections before a puzzle and returns what they define.

    Args:
        puzzle: A puzzle; before one off the track there is nothing.
        folder: Where the learner's file is; None takes the course's solutions only.

    Raises:
        OptionError: The learner's file cannot be read, or a section of it raises.
    """
    if not puzzle.saves:
        return {}
    texts = sections(Path(folder) / FILE) if folder is not None else {}
    module = ModuleType("my_jax")
    for entry in track():
        if _order(entry) < _order(puzzle):
            text = texts.get(entry.id, entry.solution)
            try:
                exec(compile(text, f"<cell my_jax {entry.id}>", "exec"), module.__dict__)
            except Exception as error:
                if entry.id not in texts:
                    raise
                sentence = user_error(error).sentence
                raise _unusable(
                    f"cannot be run: its section of puzzle {entry.id} raises {sentence}"
                ) from None
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def _unusable(why: str) -> OptionError:
    return OptionError(
        f"{FILE}, which lies beside the lessons, {why}; fix it, or move it away and the course's "
        "solutions are used"
    )


def _order(puzzle: Puzzle) -> tuple[int, int]:
    lesson, number = puzzle.id.split(".")
    return int(lesson), int(number)


def run_stablehlo(text: str, *arrays: Any) -> Any:
    """Compiles a StableHLO program with XLA and runs it.

    Args:
        text: A module whose `main` takes and returns arrays of f32.
        *arrays: Its arguments, of the shapes that the text says.

    Returns:
        Its result as a NumPy array.

    Raises:
        ValueError: The text is no StableHLO, or XLA does not take it.
        PackageError: JAX cannot be imported.
    """
    import numpy as np

    try:
        from jaxlens import core
        from jaxlens.core.interop.guests import emitted
    except ImportError as error:
        raise missing_package("a program for XLA", error) from None

    match = _RESULT.search(text)
    if match is None:
        raise ValueError("the text has no function @main that returns one tensor of f32")
    shape = tuple(int(n) for n in match[1].split("x") if n)
    program = core.Primitive("your_program", lower=lambda ctx, *xs: emitted(ctx, text, xs))
    program.abstract = lambda *_: core.ShapedArray(shape, np.dtype("float32"))
    try:
        return np.asarray(program.bind(*(np.asarray(x, np.float32) for x in arrays)))
    except (RuntimeError, TypeError) as error:  # MLIR's and XLA's are RuntimeErrors
        raise ValueError(str(error)) from None
