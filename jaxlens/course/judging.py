"""What judges answers in a process of its own: `judge_process.py` starts it, and watches it.

python -m jaxlens.course.judging
"""

import ast
import io
import linecache
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict
from typing import Any

from jaxlens.course import own
from jaxlens.course.check import GivenAnswer, Judgement, Outcome, judged
from jaxlens.course.library import puzzle
from jaxlens.course.limits import Beginning
from jaxlens.course.namespace import bound, names_of_lessons, needed, python, run_source
from jaxlens.course.puzzle import Puzzle
from jaxlens.ir.spans import register_cell


class _NoShell:
    """Stands for IPython's shell where a cell has magics, which show and are not judged."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Judge:
    """Answers the requests of `judge_process.py`; holds a judgement until its evidence is shown."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._printed, self._ends = io.StringIO(), False

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of a `Judgement`; of an empty request nothing, as it is ready."""
        if "answer" in request:
            self._printed, self._ends = io.StringIO(), False
            with _printing(self._printed):
                self._outcome = self._judged(request["answer"])
            return self._verdict(self._outcome.without_evidence())
        if "evidence" in request and self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            return self._verdict(outcome)
        return {}

    def _verdict(self, outcome: Outcome) -> dict[str, Any]:
        return asdict(Judgement.of(outcome, self._printed.getvalue(), self._ends))

    def _judged(self, answer: GivenAnswer) -> Outcome:
        entry = puzzle(answer.id)
        os.chdir(answer.folder)  # as in the lesson, whose cells may read files beside it
        return judged(entry, lambda: self._run(entry, answer))

    def _run(self, entry: Puzzle, answer: GivenAnswer) -> dict[str, Any]:
        """Runs an answer after what it needs of the cells above it; returns what it defines."""
        before = own.names_before(entry, answer.folder)
        code, file = python(answer.code), f"<cell {entry.id}>"
        if answer.number:
            register_cell(file, answer.number)
        try:
            with _printing(io.StringIO()):  # it is shown where the notebook runs the cells
                names = run_source(code, file, _names_above(answer) | before)
        except Exception as error:
            self._ends = not isinstance(error, RecursionError | MemoryError)
            raise
        self._ends = True
        given = before.keys() | bound(ast.parse(code).body)
        return {name: names[name] for name in given if name in names}


@contextmanager
def _printing(to: io.StringIO) -> Iterator[None]:
    beginning = Beginning(to)
    with redirect_stdout(beginning), redirect_stderr(beginning):
        yield


def _names_above(answer: GivenAnswer) -> dict[str, Any]:
    """Returns what an answer needs of the cells above it; what raises there is missing."""
    names: dict[str, Any] = {"get_ipython": _NoShell}
    for name, data in answer.values.items():
        with suppress(Exception):
            names[name] = pickle.loads(data)
    names |= names_of_lessons()
    given = frozenset(names)
    for number, statement in needed(answer.code, answer.earlier, given.__contains__):
        file = f"<cell above {number}>"
        text = python(answer.earlier[number])
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        with suppress(Exception):
            exec(compile(ast.Module([statement], []), file, "exec"), names)
    return names


if __name__ == "__main__":
    from jaxlens.course.trial import set_devices
    from jaxlens.stages.child.main import requests

    sys.stdin, folders = io.StringIO(), sys.stdin  # an answer may read it
    set_devices()
    judge = Judge()
    for request, reply in requests(folders):
        reply(judge(request))
