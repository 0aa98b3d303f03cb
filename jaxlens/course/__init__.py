"""The course: puzzles that the compiler judges, predictions, hints and progress.

jaxlens.course.check("9.1", {"epochs": epochs})     what `%%puzzle 9.1` does with a cell
jaxlens.course.hint("9.1")                          the next of three hints
jaxlens.course.reveal("9.1")                        a solution; it marks the puzzle
jaxlens.course.predict("1.a", 6)                    an answer beside the truth
jaxlens.course.recall(9)                            three questions from before lesson 9
jaxlens.course.progress()                           what is done
jaxlens.course.share()                              your answers in a file for a teacher
jaxlens.course.hlo_ops()                            every HLO op, with an example compiled now
"""

from jaxlens.course.attempts import hint, reveal, share
from jaxlens.course.check import Outcome, check
from jaxlens.course.hlo_ops import hlo_ops
from jaxlens.course.map import Progress, paste, progress
from jaxlens.course.predict import predict, recall

__all__ = [
    "Outcome",
    "Progress",
    "check",
    "hint",
    "hlo_ops",
    "paste",
    "predict",
    "progress",
    "recall",
    "reveal",
    "share",
]
