"""What each lens answers, and how its figures are known: THE TABLE of `--help`.

Three kinds of knowing are told apart everywhere: what was measured on this machine, what XLA says
of its own program, and what jaxlens counts or concludes from the program's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """One lens in words.

    Attributes:
        question: The question that it answers.
        measured: What was timed or tried on this machine; "" for nothing.
        xla: What is XLA's own figure or estimate; "" for nothing.
        ours: What jaxlens counts or concludes; "" for nothing.
    """

    question: str
    measured: str = ""
    xla: str = ""
    ours: str = ""

    def __str__(self) -> str:
        rows = (("measured", self.measured), ("XLA's own", self.xla), ("counted", self.ours))
        return "\n".join([self.question, *(f"  {name}: {text}" for name, text in rows if text)])


ABOUT: Mapping[str, About] = {
    "against": About(
        "What changed since then?",
        measured="seconds of each step, once each",
        xla="memory and bytes accessed of both programs",
        ours="which equations and instructions are the same: by what they compute, then by the "
        "text of their line; flops of the equations",
    ),
    "cost": About(
        "Where do flops and bytes go?",
        xla="flops and bytes of the optimised program, each loop body once",
        ours="flops by equation and line, a loop's body as often as it runs; bytes of arguments "
        "and results, the least that can move",
    ),
    "memory": About(
        "Which line owns the memory peak?",
        xla="sizes and places of all buffers (its buffer assignment), per device",
        ours="which values live at once, from XLA's order of instructions",
    ),
    "ladder": About(
        "What did each transform make of the program?",
        ours="equations by rung and pass; an equation belongs to those below it with the same "
        "Python text, and by the rule that makes such equations",
    ),
    "times": About(
        "Where does compile time go?",
        measured="seconds of each step, once, on this machine",
    ),
    "why": About(
        "Would this very call hit JAX's caches, and if not, what is new in it?",
        ours="the keys that JAX holds, compared part by part; nothing is traced",
    ),
}
"""By option and verb; a lens that is asked for otherwise stands under its verb."""
