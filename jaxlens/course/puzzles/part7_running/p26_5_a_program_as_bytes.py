"""Puzzle 26.5."""

from typing import Any

import numpy as np

from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, at_most, close, equal


def check(pack: Function) -> Facts:
    calls = []

    def wave(x: Any) -> Any:
        calls.append(x)
        return cnp.sin(x) * 2

    x = np.arange(7, dtype=np.float32)
    program = pack(wave, cnp.array(x))
    name = type(program).__name__
    hints = {
        "Lowered": "A Lowered belongs to this process. `core.export` makes one that can leave.",
        "Exported": "Nearly: it has a method that returns bytes.",
    }
    hint = hints.get(name, "What can be written into a file is bytes.")
    yield equal("what pack returns", name, "bytes", hint=hint)
    calls.clear()
    result = core.deserialize(program).call(cnp.array(x))
    yield close("the loaded program at 0, 1, 2 ...", result, np.sin(x) * 2)
    other = core.deserialize(pack(lambda x: x + 1, cnp.array(x))).call(cnp.array(x))
    yield close("another program at 0, 1, 2 ...", other, x + 1)
    yield at_most("times that Python ran `wave` for it", len(calls), 0)


PUZZLE = Puzzle(
    id="26.5",
    title="A program as bytes",
    task="""\
`pack(f, x)` takes a function of the core and an example of its argument. It must return **bytes**
from which another process could run `f` without your source: `core.deserialize(b).call(x)`. What it
returns now cannot leave this process.
""",
    starter="""\
def pack(f, x):
    return core.jit(f).trace(x).lower()
""",
    solution="""\
def pack(f, x):
    return core.export(core.jit(f))(x).serialize()
""",
    wrong=(
        WrongAnswer(
            """\
def pack(f, x):
    return core.export(core.jit(f))(x)
""",
            "method that returns bytes",
        ),
        WrongAnswer(
            """\
def pack(f, x):
    return core.jit(f).trace(x).lower().as_text()
""",
            "wanted bytes, got str",
        ),
        WrongAnswer(
            """\
def pack(f, x):
    return core.export(core.jit(f))(x[:3]).serialize()
""",
            "not solved",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def pack(f, x):
    return core.export(core.jit(lambda x: cnp.sin(x) * 2))(x).serialize()
""",
            "another program",
        ),
    ),
    hints=(
        "Look at `core.export?`: what does it take, and what does it return?",
        "It works in two calls, like a jitted function: first the function, then the example.",
        "`core.export(core.jit(f))(x)` has a method `serialize`.",
    ),
    check=check,
    after="The bytes hold StableHLO, a language with versions, so a later XLA can still read them.",
)
