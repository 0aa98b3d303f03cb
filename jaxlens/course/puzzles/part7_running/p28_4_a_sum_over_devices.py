"""Puzzle 28.4."""

import numpy as np

import jaxlens
from jaxlens.core import numpy as cnp
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least, close
from jaxlens.course.puzzles.part7_running.p28_1_place_the_arrays import devices


def check(normalise: Function) -> Facts:
    import jax

    yield devices()
    x = np.arange(1.0, jax.device_count() + 1, dtype=np.float32)
    argument = cnp.array(x)
    value = np.asarray(normalise(argument))
    hint = ""
    if np.allclose(value, 1):
        hint = "Each device divided by a sum of what it has, which is one number: its own."
    elif np.allclose(value, x / x.mean()):
        hint = "That is divided by the mean of all."
    elif np.allclose(value, x.sum() / x):
        hint = "That is the sum divided by each number."
    yield close("normalise of 1, 2, 3 ...", value, x / x.sum(), hint=hint)
    other = np.sin(x) + 2
    found = np.asarray(normalise(cnp.array(other)))
    hint = "It is right for 1, 2, 3 ... only: the sum is that of the numbers that are there."
    yield close("normalise of other numbers", found, other / other.sum(), hint=hint)
    sharding = jaxlens.sharding(normalise, argument)
    hint = "Nothing travels, so the sum was known before the devices began."
    yield at_least(
        "collectives",
        len(sharding.collectives),
        1,
        hint=hint,
        evidence=Proof(jaxlens.sharding, (normalise, argument)),
    )


PUZZLE = Puzzle(
    id="28.4",
    title="A sum over devices",
    task="""\
`core.pmap` runs `share` on every device, each with one number of `x`. Each should return its
number divided by the sum of **all** of them. Here every device divides by what it has itself. The
axis of devices has the name `"i"`.
""",
    starter="""\
def share(x):
    return x / x.sum()


normalise = core.pmap(share, axis_name="i")
""",
    solution="""\
def share(x):
    return x / core.lax.psum(x, "i")


normalise = core.pmap(share, axis_name="i")
""",
    wrong=(
        WrongAnswer(
            """\
def share(x):
    return x / core.lax.pmean(x, "i")


normalise = core.pmap(share, axis_name="i")
""",
            "mean of all",
        ),
        WrongAnswer(
            """\
def share(x):
    return core.lax.psum(x / x.sum(), "i")


normalise = core.pmap(share, axis_name="i")
""",
            "normalise of 1, 2, 3",
        ),
        WrongAnswer(
            """\
def share(x):
    return x / core.lax.psum(x, "d")


normalise = core.pmap(share, axis_name="i")
""",
            "not solved",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def share(x):
    return x / (36.0 + 0.0 * core.lax.psum(x, "i"))


normalise = core.pmap(share, axis_name="i")
""",
            "for 1, 2, 3 ... only",
        ),
    ),
    hints=(
        "Run `%compile --sharding normalise(x)`: nothing travels, so each device knows only its x.",
        "One operation of `core.lax` gives every device the sum of all. Your own JAX has it too.",
        '`core.lax.psum(x, "i")`, in place of `x.sum()`.',
    ),
    check=check,
    after="psum is the all-reduce of the lesson, written by hand.",
)
