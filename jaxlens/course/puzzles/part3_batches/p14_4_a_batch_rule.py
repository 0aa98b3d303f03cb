"""Puzzle 14.4, a rule for `jaxlens.core`."""

from typing import Any

import numpy as np

import jaxlens
from jaxlens import core
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, edited


def check(flip: Function) -> Facts:
    from jaxlens.core import numpy as cnp

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    array = cnp.array(x)
    yield close("one row", flip(cnp.array(x[0]), 0), x[0, ::-1], hint="Leave `flip` as it is.")

    def rows(x: Any) -> Any:
        return core.vmap(lambda row: flip(row, 0))(x)

    def columns(x: Any) -> Any:
        return core.vmap(lambda column: flip(column, 0), in_axes=1, out_axes=1)(x)

    def both(x: Any) -> Any:
        return core.vmap(core.vmap(lambda row: flip(row, 0)), in_axes=1, out_axes=1)(x)

    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = np.asarray(rows(array))
    hint = "The rows changed places: axis 0 of the batched array is the batch, and no row's axis."
    if found.shape == x.shape and not np.allclose(found, x[::-1]):
        hint = "Each row has one axis, its axis 0. Which axis is that in the batched array?"
    proof = Proof(jaxlens.jaxpr, (core.vmap(lambda row: flip(row, 0)), array))
    yield close("batch on axis 0", found, x[:, ::-1], hint=hint, evidence=proof)
    hint = "Here the batch is axis 1, so the axis of each column is still axis 0."
    found = np.asarray(columns(array))
    if found.shape != x.shape or not np.allclose(found, x[:, ::-1]):
        hint = "The rule must say where the batch axis of its result is: where that of `x` was."
    yield close("batch on axis 1", found, x[::-1], hint=hint)
    hint = "A batch of a batch: the rule's `flip` is batched again, by the same rule."
    yield close("batch in a batch", both(cnp.array(cube)), cube[:, :, ::-1], hint=hint)


SOLUTION = """\
from jaxlib.mlir.dialects import stablehlo

flip_p = core.Primitive("flip")


def flip(x, axis):
    '''Reverses the order along one axis.'''
    return flip_p.bind(x, axis=axis)


@flip_p.rule("abstract")
def _(x, *, axis):
    return x


@flip_p.rule("lower")
def _(context, x, *, axis):
    return stablehlo.reverse(x, [axis])


@flip_p.rule("batch")
def _(size, args, dims, *, axis):
    (x,), (dim,) = args, dims  # the batched array, and which axis is the batch
    return flip(x, axis + 1 if dim <= axis else axis), dim
"""

_RULE = "    return flip(x, axis + 1 if dim <= axis else axis), dim\n"

PUZZLE = Puzzle(
    id="14.4",
    title="A batch rule",
    task="""\
`flip` is an operation of its own: `jaxlens.core` knows its type and its StableHLO. Its **batch
rule** gets the batched array and the batch's axis `dim`, and returns the result with the batch's
axis there. `axis` counts the axes of **one example**, which has no batch axis. Fix the last
line.
""",
    starter=edited(SOLUTION, (_RULE, "    return flip(x, axis), dim  # is `axis` still right?\n")),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, (_RULE, "    return flip(x, axis + 1), dim\n")), "still axis 0"
        ),
        WrongAnswer(
            edited(SOLUTION, (_RULE, "    return flip(x, axis + 1 if dim <= axis else axis), 0\n")),
            "where that of `x` was",
        ),
        WrongAnswer(
            edited(
                SOLUTION, (_RULE, "    return flip(x, axis + 1 if dim < axis else axis), dim\n")
            ),
            "changed places",
        ),
    ),
    cheats=(
        WrongAnswer(
            edited(SOLUTION, ("axis + 1 if dim <= axis else axis", "1 - dim")), "batch in a batch"
        ),
    ),
    hints=(
        "Run `%jaxpr core.vmap(lambda row: flip(row, 0))(cnp.ones((4, 3)))`: what is flipped?",
        "Write down the axes of the batched array, once for `dim` 0 and once for `dim` 1. Where is "
        "axis 0 of an example?",
        "An axis at `dim` or behind it moves one further: `axis + 1 if dim <= axis else axis`.",
    ),
    check=check,
    after="A batch rule is arithmetic on axes. Those of jax.lax are of the same kind.",
)
