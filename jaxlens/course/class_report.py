"""A class's answers, each run anew: a table for the teacher, and the same as CSV.

DIR holds a folder for each learner, with the lessons and the progress file. What a progress file
says is what happened in the learner's own process, so every `%%puzzle` cell of the notebooks is
judged again, each in a process of its own.
"""

import csv
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jaxlens.course import progress_file
from jaxlens.course.library import modules, puzzle
from jaxlens.errors import OptionError

CSV = "class_report.csv"
_SECONDS = 60.0  # for each answer with the start of its process, which is seconds itself
_COURSE = "jaxlens-course"  # the folder that `jaxlens lab` and the hub make in a learner's home


@dataclass(frozen=True, slots=True)
class Learner:
    """What one folder holds.

    Attributes:
        name: The folder's name.
        sentences: The judgement on each answer, by puzzle id.
        solved: Puzzles whose answer passed again.
        claimed: Puzzles that the progress file calls solved.
        revealed: Puzzles whose solution was shown, by the same file.
    """

    name: str
    sentences: dict[str, str]
    solved: frozenset[str]
    claimed: frozenset[str]
    revealed: frozenset[str]


def write(folder: Path) -> str:
    """Judges every learner's answers, writes the CSV into `folder`, and returns the table.

    Raises:
        OptionError: There is no folder of a learner in it.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder} is no folder; give the one with the learners' folders")
    learners = [learner(path) for path in sorted(folder.iterdir()) if path.is_dir()]
    if not learners:
        raise OptionError(f"{folder} holds no folders; expected one for each learner")
    with (folder / CSV).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["learner", "puzzle", "solved", "solution shown", "judgement"])
        for entry in learners:
            for id, sentence in entry.sentences.items():
                solved, shown = id in entry.solved, id in entry.revealed
                rows.writerow([entry.name, id, *map(int, (solved, shown)), sentence])
    width = max(len(entry.name) for entry in learners)
    lines = [f"{'':{width}}  answers  solved  by the progress file  solutions shown"]
    lines += [
        f"{entry.name:{width}}  {len(entry.sentences):7}  {len(entry.solved):6}"
        f"  {len(entry.claimed):20}  {len(entry.revealed):15}"
        for entry in learners
    ]
    return "\n".join([*lines, f"{len(modules())} puzzles; written to {folder / CSV}"])


def learner(home: Path) -> Learner:
    """Judges the answers in one learner's folder, or in the course's folder within it."""
    folder = home / _COURSE if (home / _COURSE).is_dir() else home
    stored = progress_file.read(folder / progress_file.FILE)
    judged: dict[str, tuple[bool, str]] = {}
    for id, code in answers(folder).items():
        judged[id] = judge_in_process(folder, id, code)
    return Learner(
        home.name,
        {id: sentence for id, (_, sentence) in judged.items()},
        frozenset(id for id, (solved, _) in judged.items() if solved),
        frozenset(stored["solved"]),
        frozenset(stored["revealed"]),
    )


def answers(folder: Path) -> dict[str, str]:
    """Returns the source under each `%%puzzle` of a folder, by id, without unchanged starters."""
    codes = {}
    for path in sorted(folder.glob("*.ipynb")):
        try:
            cells = json.loads(path.read_text("utf-8"))["cells"]
        except (OSError, ValueError, KeyError):
            continue
        for cell in cells:
            first, _, code = "".join(cell.get("source", "")).partition("\n")
            magic, _, id = first.partition(" ")
            if magic == "%%puzzle" and id.strip() in modules():
                codes[id.strip()] = code
    return {
        id: codes[id]
        for id in modules()
        if id in codes and codes[id].strip() != puzzle(id).starter.strip()
    }


def judge_in_process(folder: Path, id: str, code: str) -> tuple[bool, str]:
    """Judges one answer in a new process; returns whether it is solved, and the sentence."""
    given = json.dumps({"id": id, "code": code, "folder": str(folder)})
    command = [sys.executable, "-m", "jaxlens", "course", "judge"]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        solved, sentence = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return False, f"stopped after {_SECONDS:g} s"
    except (subprocess.CalledProcessError, ValueError, IndexError):
        return False, "the process that judged it ended early"
    return bool(solved), str(sentence)


def judge_given(text: str) -> str:
    """Judges the answer that `judge_in_process` describes; returns its result as JSON."""
    from jaxlens.course.check import judge
    from jaxlens.course.errors import user_error
    from jaxlens.course.trial import run_answer, set_devices

    given = json.loads(text)
    entry = puzzle(given["id"])
    set_devices()
    try:
        outcome = judge(entry, run_answer(entry, given["code"], given["folder"]))
    except Exception as error:
        return json.dumps([False, user_error(error).sentence])
    return json.dumps([outcome.solved, outcome.sentence])
