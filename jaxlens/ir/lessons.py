"""THE TABLE of lessons: parts, order, what each needs, and how long it takes a reader."""

import importlib.metadata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PARTS = (
    "Tracing",
    "Compile once",
    "Transforms",
    "Loops",
    "What XLA does",
    "What it costs",
    "Running it",
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson.

    Attributes:
        number: Its place in the course, from 1.
        part: Index into `PARTS`.
        title: Its heading.
        question: The one question that it answers.
        minutes: Of a reader's time, puzzles included.
        extra: Minutes of what the lesson calls extra, beside `minutes`.
        needs: Lessons that it builds on.
        lectures: Lectures on JAX that treat the same ("000" to "004").
    """

    number: int
    part: int
    title: str
    question: str
    minutes: int
    needs: tuple[int, ...] = ()
    lectures: str = ""
    extra: int = 0

    @property
    def file(self) -> str:
        """Name of its notebook, without ending."""
        letters = "".join(c if c.isalnum() else " " for c in self.title.lower())
        return f"{self.number:02}_{'_'.join(letters.split())}"


LESSONS = (
    Lesson(
        1,
        0,
        "One line, five programs",
        "What is between my line and the processor?",
        16,
        (),
        "000 002 003",
    ),
    Lesson(
        2,
        0,
        "A function on stand-ins",
        "How can JAX see what a function does?",
        17,
        (1,),
        "000 003",
    ),
    Lesson(3, 0, "What tracing cannot see", "Which Python is lost on the way?", 17, (2,), "003"),
    Lesson(4, 0, "Tracing or bytecode", "Does JAX read my source?", 11, (2,), "003"),
    Lesson(5, 0, "Read a jaxpr", "What does each part of a jaxpr mean?", 19, (2,), "002 003 004"),
    Lesson(6, 0, "Trees of arrays", "What is an argument to JAX?", 14, (5,), "004"),
    Lesson(7, 1, "When it compiles", "Which call compiles, and why?", 20, (2, 6), "000 001"),
    Lesson(
        8,
        1,
        "Static or data",
        "What belongs to the program, and what to its input?",
        15,
        (7,),
        "000 001 003",
    ),
    Lesson(
        9, 1, "Give the memory back", "Can a step reuse its input's memory?", 13, (7,), "001 002"
    ),
    Lesson(
        10, 2, "A table of rules", "How does JAX differentiate a program?", 20, (5,), "002 003 004"
    ),
    Lesson(
        11, 2, "Wide or tall", "Which way through the chain rule is cheaper?", 17, (10,), "002 003"
    ),
    Lesson(
        12,
        2,
        "A batch is not a loop",
        "What does vmap do to a program?",
        16,
        (5, 10),
        "002 003 004",
        extra=4,
    ),
    Lesson(
        13, 2, "Stack them", "Does the order of the transforms matter?", 18, (10, 12), "000 003"
    ),
    Lesson(
        14,
        2,
        "A rule of your own",
        "What if the derivative is not what I want?",
        18,
        (10,),
        "004",
        extra=9,
    ),
    Lesson(
        15,
        2,
        "Keep or compute again",
        "What does the backward pass keep, and must it?",
        17,
        (10,),
        "004",
        extra=3,
    ),
    Lesson(
        16,
        3,
        "Loops that stay loops",
        "How does a loop get into a program?",
        20,
        (3, 10),
        "004",
        extra=2,
    ),
    Lesson(17, 3, "Sums in a tree", "Which loops can run in parallel?", 15, (16,), "004"),
    Lesson(18, 4, "Read HLO", "What does XLA get to work on?", 15, (5,), "002"),
    Lesson(19, 4, "What the passes did", "What becomes of my equations?", 14, (18,), "002"),
    Lesson(
        20,
        4,
        "What is fused",
        "What becomes one kernel, and what does that save?",
        20,
        (19,),
        "000 002",
    ),
    Lesson(
        21, 4, "Down to the processor", "What does the processor execute?", 11, (20,), "000 002 003"
    ),
    Lesson(
        22,
        5,
        "Flops and bytes",
        "How much work is it, and which limit does it meet?",
        17,
        (20,),
        "004",
    ),
    Lesson(23, 5, "Who owns the memory", "Which line owns the memory peak?", 18, (20,), "002"),
    Lesson(
        24,
        6,
        "Ahead of time",
        "Can a program be compiled before it is needed?",
        20,
        (7,),
        "001 002 004",
    ),
    Lesson(25, 6, "Nothing is waiting", "Why is my timing wrong?", 13, (7,), "002 004"),
    Lesson(
        26,
        6,
        "One program, many devices",
        "Who computes what, and what travels?",
        17,
        (12, 20),
        "000 002 003 004",
    ),
    Lesson(27, 6, "Hunting a NaN", "Where does the NaN come from?", 14, (10,), "003"),
    Lesson(
        28,
        6,
        "Make this step good",
        "What would you mend first?",
        19,
        (9, 16, 20, 23),
        "000 001 002 003 004",
    ),
)

BY_NUMBER = {lesson.number: lesson for lesson in LESSONS}


def reference(number: int, folder: Path | None = None) -> tuple[str, str]:
    """Returns how a lesson is named, and where a click opens it.

    Args:
        number: The lesson.
        folder: Where its notebook may lie; the current folder, in which Jupyter runs a notebook,
            for None.

    Returns:
        `lesson 18, Read HLO`, and the notebook's file name if the folder holds it, else the
        address of the course that the project's metadata names, else "" (the name then says how
        to get the course).
    """
    lesson = BY_NUMBER[number]
    name = f"lesson {number}, {lesson.title}"
    file = f"{lesson.file}.ipynb"
    try:
        here = ((folder or Path()) / file).is_file()
    except OSError:  # the current folder is gone
        here = False
    address = file if here else _course_address()
    return (name, address) if address else (f"{name} (`jaxlens lab`)", "")


@cache
def _course_address() -> str:
    """Returns the address of the course in the project's metadata; "" for none."""
    try:
        urls = importlib.metadata.metadata("jaxlens").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return ""
    named = (url.partition(",") for url in urls)
    return next((there.strip() for name, _, there in named if name.lower() == "course"), "")
