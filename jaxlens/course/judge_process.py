"""Judges one answer of a learner's in a process of its own: what `jaxlens course judge` runs.

The verdict comes back by a file whose name the answer is not given, since its output is its own.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jaxlens.course.library import puzzle
from jaxlens.course.puzzle import Puzzle
from jaxlens.interrupts import temporary_folder
from jaxlens.reading import read_json

_SECONDS = 120.0  # for each answer, with the start of its process, which is seconds itself


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One `%%puzzle` cell of a notebook.

    Attributes:
        id: The puzzle.
        code: The source under `%%puzzle`.
        earlier: The sources of the code cells above it, in order.
        folder: Where the notebook is, with the learner's own JAX.
    """

    id: str
    code: str
    earlier: tuple[str, ...]
    folder: str


def judge_in_process(answer: GivenAnswer) -> tuple[bool, str]:
    """Judges an answer in a new process; returns whether it is solved, and the sentence."""
    with temporary_folder() as folder:
        verdict = folder / "verdict"
        given = json.dumps({"verdict": str(verdict), **asdict(answer)})
        command = [sys.executable, "-m", "jaxlens", "course", "judge"]
        why = "the process that judged it ended early"
        try:
            subprocess.run(
                command,
                input=given,
                text=True,
                timeout=_SECONDS,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"stopped after {_SECONDS:g} s"
        # Read also when it was stopped: a thread of the answer's may outlive its judgement.
        with suppress(OSError, ValueError):
            solved, sentence = read_json(verdict)
            return bool(solved), str(sentence)
        return False, why


def judge_given(text: str) -> None:
    """Judges the answer that `judge_in_process` describes, and writes the verdict."""
    from jaxlens.course.trial import run_answer, set_devices

    given = json.loads(text)
    verdict = given.pop("verdict")
    answer = GivenAnswer(**given)
    entry = puzzle(answer.id)
    set_devices()
    os.chdir(answer.folder)  # as in the lesson, whose cells may read files beside it
    run = partial(run_answer, entry, answer.code, answer.folder)
    solved, sentence, error = _attempt(entry, run)
    if isinstance(error, NameError | SyntaxError):  # a name of another cell, or a magic
        solved, sentence, _ = _attempt(entry, partial(_run_in_notebook, entry, answer))
    Path(verdict).write_text(json.dumps([solved, sentence]), "utf-8")


def _attempt(
    entry: Puzzle, run: Callable[[], dict[str, Any]]
) -> tuple[bool, str, BaseException | None]:
    from jaxlens.course.check import judge
    from jaxlens.course.errors import user_error

    try:
        outcome = judge(entry, run())
    except Exception as error:
        return False, user_error(error).sentence, error
    return outcome.solved, outcome.sentence, outcome.error


def _run_in_notebook(entry: Puzzle, answer: GivenAnswer) -> dict[str, Any]:
    """Runs an answer by IPython after the cells above it, and returns what it defines."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from jaxlens.course import own
    from jaxlens.course.namespace import bound, run_source

    config = Config()
    config.HistoryManager.enabled = False  # its file is the caller's
    shell = InteractiveShell.instance(config=config)
    shell.push(run_source("", "<imports>"))
    for cell in answer.earlier:
        # Nothing is looked at here, so `%%compile` and `%%puzzle` are only the code below them.
        shell.run_cell(cell.partition("\n")[2] if cell.startswith("%%") else cell)
    before = own.names_before(entry, answer.folder)
    code = shell.transform_cell(answer.code)
    names = run_source(code, f"<cell {entry.id}>", shell.user_ns | before)
    given = before.keys() | bound(ast.parse(code).body)
    return {name: names[name] for name in given if name in names}
