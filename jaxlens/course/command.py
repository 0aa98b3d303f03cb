"""`jaxlens course ...`: lists, checks and builds the course from a terminal."""

import argparse
import importlib.util
from pathlib import Path

from jaxlens.course.library import ids_of, modules, puzzle
from jaxlens.course.puzzle import Puzzle
from jaxlens.errors import OptionError
from jaxlens.ir.lessons import BY_NUMBER, LESSONS
from jaxlens.ir.saved.file import write_whole


def main(argv: list[str]) -> int:
    """Runs `jaxlens course` with its arguments; returns its exit status."""
    course = argparse.ArgumentParser(prog="jaxlens course", description=__doc__)
    verbs = course.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="lessons and puzzles")
    checking = verbs.add_parser(
        "check", help="try starters, wrong answers and solutions of puzzles; 0 if all are right"
    )
    checking.add_argument("ids", nargs="*", metavar="ID")
    trying = verbs.add_parser("try", help="try a puzzle that you are writing")
    trying.add_argument("file", type=Path, metavar="FILE")
    for name, what in (("solved", "the course with solutions"), ("blank", "the course to solve")):
        building = verbs.add_parser(name, help=f"build {what}; keeps files that are there")
        building.add_argument("folder", nargs="?", type=Path, default=Path(f"course-{name}"))
    mine = verbs.add_parser("mine", help="judge every part of your own JAX that is written")
    mine.add_argument("folder", nargs="?", type=Path, default=Path())
    showing = verbs.add_parser("slides", help="write a lesson's predictions as slides to vote on")
    showing.add_argument("lesson", type=int, choices=range(1, len(LESSONS) + 1), metavar="LESSON")
    showing.add_argument("file", nargs="?", type=Path, help="slides_07.html where it is left out")
    report = verbs.add_parser(
        "report",
        help="a table of a class's progress, answers run anew",
        description="Judges every answer in the learners' folders of DIR anew. This runs the "
        "learners' code with your rights: copy the folders, and run it as a user who owns nothing "
        "but the copies.",
    )
    report.add_argument("folder", type=Path, metavar="DIR")
    return run(course.parse_args(argv))


def run(options: argparse.Namespace) -> int:
    """Runs one subcommand and returns its exit status."""
    if options.verb == "list":
        return listing()
    if options.verb == "check":
        return tried([puzzle(id) for id in options.ids or modules()])
    if options.verb == "try":
        return tried([from_file(options.file)])
    if options.verb == "mine":
        return mine(options.folder)
    if options.verb == "slides":
        from jaxlens.course.slides import slides
        from jaxlens.course.trial import set_devices

        set_devices()
        path = options.file or Path(f"slides_{options.lesson:02}.html")
        write_whole(path, slides(BY_NUMBER[options.lesson]).encode())
        print(path)
        return 0
    if options.verb == "report":
        from jaxlens.course.class_report import report

        for line in report(options.folder):
            print(line, flush=True)
        return 0
    from jaxlens.course.build import build

    for path in build(options.folder, solved=options.verb == "solved", keep=True):
        print(path)
    print("a notebook that was there already is kept: to build it anew, delete it first")
    return 0


def listing() -> int:
    """Prints lessons with their puzzles."""
    for lesson in LESSONS:
        print(f"{lesson.number:>4}  {lesson.title}: {lesson.question}  ({lesson.minutes} minutes)")
        for p in map(puzzle, ids_of(lesson.number)):
            where = f"  [{', '.join(p.backends)}]" if p.backends else ""
            print(f"      {p.id:5} {p.title}{where}")
    return 0


def mine(folder: Path) -> int:
    """Judges the learner's own JAX, part by part; returns 1 where one is not right."""
    from jaxlens.course import own
    from jaxlens.course.check import GivenAnswer
    from jaxlens.course.judge_process import judge_apart

    texts = own.sections(folder / own.FILE)
    parts = [entry for entry in own.track() if entry.id in texts]
    if not parts:
        raise OptionError(f"{folder} has no {own.FILE}; puzzle 3.1 begins it")
    where = str(folder.resolve())
    answers = (GivenAnswer(entry.id, texts[entry.id], (), where) for entry in parts)
    wrong = 0
    for entry, verdict in zip(parts, judge_apart(answers), strict=True):
        wrong += not verdict.solved
        told = entry.saves if verdict.solved else verdict.sentence
        print(f"{'ok ' if verdict.solved else 'BAD'} {entry.id:5} {told}", flush=True)
    lines = sum(len(texts[entry.id].splitlines()) for entry in parts)
    done = f"{len(parts)} of {len(own.track())} parts in {lines} lines"
    print(f"{own.FILE}: {done}, {wrong} of them wrong")
    return int(wrong > 0)


def tried(chosen: list[Puzzle]) -> int:
    """Tries puzzles and prints a line for each answer; returns 1 where one is not as it must be."""
    from jaxlens.course.trial import set_devices, trials

    set_devices()
    wrong = 0
    for entry in chosen:
        for trial in trials(entry):
            mark = "ok " if trial.as_expected else "BAD"
            wrong += not trial.as_expected
            print(f"{mark} {trial.id:5} {trial.kind:10} {trial.seconds:5.1f} s  {trial.sentence}")
    print(f"{len(chosen)} puzzles, {wrong} answers not as they must be")
    return int(wrong > 0)


def from_file(path: Path) -> Puzzle:
    """Loads the puzzle in a file.

    Raises:
        OptionError: The file holds no `PUZZLE`.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise OptionError(f"{path} is no Python file; give the file of a puzzle")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entry = getattr(module, "PUZZLE", None)
    if not isinstance(entry, Puzzle):
        raise OptionError(f"{path} defines no PUZZLE; see jaxlens/course/puzzle.py")
    return entry
