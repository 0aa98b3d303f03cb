"""A class's answers, each run anew: a table for the teacher, and the same as CSV.

DIR holds a folder for each learner, with the lessons and the progress file. What a progress file
says is what happened in the learner's own process, so every `%%puzzle` cell of the notebooks is
judged again, each in a process of its own.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

from jaxlens.course import progress_file
from jaxlens.course.attempts import SHARED, first_tries, read
from jaxlens.course.check import GivenAnswer, Judgement
from jaxlens.course.judge_process import judge_apart
from jaxlens.course.library import modules, puzzle
from jaxlens.errors import OptionError
from jaxlens.reading import read_json
from jaxlens.render.control_chars import visible

CSV = "class_report.csv"
_NOTEBOOK = 512 << 20  # bytes of memory
_COURSE = "jaxlens-course"  # the folder that `jaxlens lab` and the hub make in a learner's home
_PROCESSES = min(8, os.cpu_count() or 1)  # each takes up to 2 GB
_HARDEST = 20  # rows
_COLUMNS = "learner,puzzle,solved,solution shown,by the progress file,judgement".split(",")


@dataclass(frozen=True, slots=True)
class Learner:
    """What one folder holds.

    Attributes:
        name: The folder's name, as a terminal and a spreadsheet can show it.
        answers: The answers to each puzzle, by its id.
        unreadable: A sentence for each file that cannot be read, or where no lesson is.
        claimed: Puzzles that the progress file calls solved.
        revealed: Puzzles whose solution was shown, by the same file.
    """

    name: str
    answers: dict[str, list[GivenAnswer]]
    unreadable: list[str]
    claimed: frozenset[str]
    revealed: frozenset[str]


def report(folder: Path) -> Iterator[str]:
    """Judges every learner's answers into a CSV file in `folder`.

    Yields:
        The lines of a table, that of a learner as soon as the learner's answers are judged.

    Raises:
        OptionError: There is no folder of a learner in it, or it cannot be written.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder} is no folder; give the one with the learners' folders")
    homes = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != "."]
    if not homes:
        raise OptionError(f"{folder} holds no folders; expected one for each learner")
    learners = list(map(learner, homes))
    width = max(len(entry.name) for entry in learners)
    with _opened(folder / CSV) as file:
        rows = csv.writer(file)
        rows.writerow(_COLUMNS)
        yield f"{'':{width}}  answers  solved  by the progress file  solutions shown"
        for entry, verdicts in _judged(learners):
            rows.writerows(_rows(entry, verdicts))
            file.flush()
            solved = sum(verdict.solved for verdict in verdicts.values())
            yield (
                f"{entry.name:{width}}  {len(verdicts):7}  {solved:6}"
                f"  {len(entry.claimed):20}  {len(entry.revealed):15}"
            )
    yield from (f"{entry.name}: {why}" for entry in learners for why in entry.unreadable)
    yield from _first_tries(homes)
    yield f"{len(modules())} puzzles; written to {folder / CSV}"


def _first_tries(homes: list[Path]) -> Iterator[str]:
    """Yields what was wrong most often at the first try, of the learners who shared that."""
    answers = [attempts for home in homes if (attempts := read(_course(home) / SHARED))]
    if not answers:
        return
    shared = list(map(first_tries, answers))
    until_right = [first_tries(a for a in attempts if a.right) for attempts in answers]
    rates = dict[float, list[str]]()
    for id in sorted({id for firsts in shared for id in firsts}):
        tries = [firsts[id] for firsts in shared if id in firsts]
        right = sum(attempt.right for attempt in tries)
        wrong = Counter(attempt.answer for attempt in tries if attempt.answer and not attempt.right)
        said = "".join(f", {n} said {visible(text)}" for text, n in wrong.most_common(1) if n > 1)
        times = [rights[id].seconds for rights in until_right if id in rights]
        took = f", right after {median(times) / 60:.0f} min" if times and median(times) > 90 else ""
        line = f"{id}: {right} of {len(tries)}{said}{took}"
        rates.setdefault(right / len(tries), []).append(line)
    lines = [line for rate in sorted(rates) if rate < 1 for line in rates[rate]]
    yield f"right at the first try, of {len(shared)} who shared their answers, hardest first:"
    yield from lines[:_HARDEST]
    yield from ["all of them"] if not lines else []


def _course(home: Path) -> Path:
    return home / _COURSE if os.path.isdir(home / _COURSE) else home


def _opened(path: Path) -> TextIO:
    try:  # a message may hold what UTF-8 cannot
        return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        why = f"cannot write {path} ({error.strerror})"
        raise OptionError(f"{why}; copy the learners' folders into a folder of yours") from None


def _judged(learners: list[Learner]) -> Iterator[tuple[Learner, dict[str, Judgement]]]:
    """Yields each learner with a verdict on each puzzle, as soon as all of these are known."""
    pool = ThreadPoolExecutor(_PROCESSES)
    try:
        answers = (several for entry in learners for several in entry.answers.values())
        verdicts = pool.map(best_verdict, answers)
        for entry in learners:
            yield entry, dict(zip(entry.answers, verdicts, strict=False))
    finally:
        pool.shutdown(cancel_futures=True)


def _rows(entry: Learner, verdicts: dict[str, Judgement]) -> Iterator[list[object]]:
    for id, verdict in verdicts.items():
        marks = map(int, (verdict.solved, id in entry.revealed, id in entry.claimed))
        yield [entry.name, id, *marks, _inert(verdict.sentence)]
    for why in entry.unreadable:
        yield [entry.name, "", 0, 0, 0, why]


def _inert(text: str) -> str:
    """Returns a learner's text so that no terminal obeys it, and no spreadsheet computes it."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def learner(home: Path) -> Learner:
    """Reads one learner's folder, or the course's folder within it."""
    folder = _course(home)
    progress = folder / progress_file.FILE
    stored = progress_file.read(progress)
    answers: dict[str, list[GivenAnswer]] = {id: [] for id in modules()}
    unreadable = [f"{progress.name} cannot be read"] if progress_file.is_damaged(progress) else []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".ipynb")
    except OSError as error:
        paths, unreadable = [], [f"the folder cannot be read ({error.strerror})"]
    else:
        if not paths:
            unreadable.append("no lesson is in the folder, so nothing is judged")
    for path in paths:
        try:
            for answer in answers_in(path):
                answers[answer.id].append(answer)
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "it is no notebook"
            name = visible(path.name)
            unreadable.append(f"{name} cannot be read ({why}), so nothing of it is judged")
    given = {id: several for id, several in answers.items() if several}
    solved, shown = (modules().keys() & stored[kind] for kind in ("solved", "revealed"))
    return Learner(_inert(home.name), given, unreadable, frozenset(solved), frozenset(shown))


def answers_in(path: Path) -> Iterator[GivenAnswer]:
    """Yields the answers in a notebook, without unchanged starters.

    Raises:
        OSError, ValueError, LookupError, TypeError, RecursionError: It is no notebook.
    """
    cells = read_json(path, _NOTEBOOK)["cells"]
    codes = ["".join(cell["source"]).lstrip() for cell in cells if cell["cell_type"] == "code"]
    for number, source in enumerate(codes):
        first, _, code = source.partition("\n")
        magic, _, id = map(str.strip, first.partition(" "))
        if magic == "%%puzzle" and id in modules() and code.strip() != puzzle(id).starter.strip():
            yield GivenAnswer(id, source, tuple(codes[:number]), str(path.parent.resolve()))


def best_verdict(answers: list[GivenAnswer]) -> Judgement:
    """Judges the answers of a learner's to one puzzle; the last, or else any that is solved."""
    with closing(judge_apart(reversed(answers))) as verdicts:
        last = next(verdicts)
        return last if last.solved else next((v for v in verdicts if v.solved), last)
