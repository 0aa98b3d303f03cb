"""Puzzle 15.3, of the learner's own JAX."""

from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, edited
from jaxlens.course.puzzles.own_programs import alike, fits, pairs, random_programs, under
from jaxlens.course.puzzles.references import reference


def check(
    vmap: Function,
    grad: Function,
    total: Function,
    relu: Function,
    apply: Function,
    jit: Function,
    jvp: Function,
) -> Facts:
    rows = np.arange(15.0).reshape(5, 3)
    scales = np.arange(5.0)
    hint = "Lift what is batched, to `len(eqn.shape)` axes: a number has no batch axis."
    yield fits("x * 2 on rows", lambda: vmap(lambda x: x * 2, (0,))(rows), rows * 2, hint)
    hint = "NumPy aligns shapes from the right: a batch of numbers, (5,), beside (5, 3)."
    scaled = vmap(lambda x, s: x * s, (0, 0))
    right = rows * scales[:, None]
    yield fits("x * s, a row and a number", lambda: scaled(rows, scales), right, hint)
    hint = "Is the result of a batched equation in `with_axis`?"
    sums = vmap(lambda x: total(x) * x, (0,))
    right = rows.sum(1)[:, None] * rows
    yield fits("total(x) * x of each row", lambda: sums(rows), right, hint)
    random = np.random.default_rng(0)
    w, b, x = (random.normal(size=n).astype(np.float32) for n in ((3, 2), (2,), (4, 1, 3)))

    def loss(w: Any, b: Any, x: Any) -> Any:
        return total(relu(x @ w + b))

    def by_jax(jax: Any) -> Any:
        gradient = jax.grad(lambda w, b, x: jax.nn.relu(x @ w + b).sum())
        return jax.vmap(gradient, (None, None, 0))(w, b, x)

    right = reference("gradient of each example", by_jax)
    mine = lambda: vmap(grad(loss), (None, None, 0))(w, b, x)  # noqa: E731
    yield fits("gradient of each example", mine, right, hint)
    names = {"jit": jit, "jvp": jvp, "grad": grad, "total": total, "vmap": vmap}
    hint = "Which inputs have a batch axis is known of each equation, also of a stored program."
    programs = random_programs(apply)
    yield alike("random programs under vmap", under([("vmap",)], programs, **names), hint)
    cases = under(pairs("vmap", "jit", "jvp", "grad"), programs[:2], **names)
    yield alike("vmap in pairs with the others", cases, hint)


SOLUTION = """\
RUN["reshape"] = np.reshape
JVP["reshape"] = lambda x, shape, dx, _: reshape(dx, shape)
BACK["reshape"] = lambda ct, x, shape: (reshape(ct, np.shape(x)), None)


def reshape(x, shape):
    return x if np.shape(x) == shape else apply("reshape", x, shape)


def lift(x, rank):
    '''Puts axes of size 1 behind the batch axis, until each example has `rank` axes.'''
    size, *rest = np.shape(x)
    return reshape(x, (size, *(1,) * (rank - len(rest)), *rest))


def batch(eqn, inputs, batched):
    '''Applies one equation where some inputs have a batch axis in front.'''
    if eqn.op == "sum_to":
        x, shape = inputs
        size, *rest = np.shape(x)
        padded = (1,) * (len(rest) - len(shape)) + shape
        return reshape(sum_to(x, (size, *padded)), (size, *shape))
    if eqn.op == "broadcast":
        x, shape = inputs
        return broadcast(lift(x, len(shape)), (np.shape(x)[0], *shape))
    if eqn.op == "reshape":
        x, shape = inputs
        return reshape(x, (np.shape(x)[0], *shape))
    rank = len(eqn.shape)
    return apply(eqn.op, *[lift(x, rank) if b else x for x, b in zip(inputs, batched)])


def vmap(f, in_axes):
    def call(*args):
        shapes = [np.shape(x)[1:] if a == 0 else np.shape(x) for x, a in zip(args, in_axes)]
        program = trace(f, *shapes)
        values = dict(zip(program.inputs, args))
        with_axis = {x for x, a in zip(program.inputs, in_axes) if a == 0}
        for eqn in program.eqns:
            inputs = [read(values, x) for x in eqn.inputs]
            batched = [isinstance(x, str) and x in with_axis for x in eqn.inputs]
            if any(batched):
                with_axis.add(eqn.output)
                values[eqn.output] = batch(eqn, inputs, batched)
            else:
                values[eqn.output] = apply(eqn.op, *inputs)
        return values[program.output]

    return call
"""

PUZZLE = Puzzle(
    id="15.3",
    title="Batch rules",
    task="""\
`vmap` traces `f` for **one example** and runs the program on all of them: each batched value
has the batch axis in front. Two things are missing. The result of a batched equation is batched
too, and `vmap` has to note that. And the last line of `batch`, for operations that go element by
element, must allow for an input with fewer axes than another.

`lift(x, rank)` puts axes of size 1 behind the batch axis; `eqn.shape` is the shape of one
example's result.
""",
    starter=edited(
        SOLUTION,
        (
            """\
    rank = len(eqn.shape)
    return apply(eqn.op, *[lift(x, rank) if b else x for x, b in zip(inputs, batched)])
""",
            """\
    return apply(eqn.op, *inputs)  # right for two rows; for a row and a number?
""",
        ),
        (
            """\
            if any(batched):
                with_axis.add(eqn.output)
                values[eqn.output] = batch(eqn, inputs, batched)
""",
            """\
            if any(batched):
                values[eqn.output] = batch(eqn, inputs, batched)  # and what of its result?
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "*[lift(x, rank) if b else x for x, b in zip(inputs, batched)]",
                    "*inputs",
                ),
            ),
            "from the right",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
                with_axis.add(eqn.output)
""",
                    "",
                ),
            ),
            "with_axis",
        ),
        WrongAnswer(
            edited(SOLUTION, ("lift(x, rank) if b else x for", "lift(x, rank) for")),
            "a number has no batch axis",
        ),
    ),
    hints=(
        (
            "Trace `lambda x, s: x * s` with x of shape (3,) and s of shape (): what are "
            "their shapes with a batch of 5?"
        ),
        (
            "NumPy aligns shapes from the right, so (5, 3) and (5,) do not fit, while (5, 3) "
            "and (5, 1) do. And `with_axis` holds the names that are batched."
        ),
        (
            "`with_axis.add(eqn.output)`; then lift every batched input to `len(eqn.shape)` "
            "axes: "
            "`[lift(x, rank) if b else x for x, b in zip(inputs, batched)]`."
        ),
    ),
    check=check,
    after=(
        "One example is traced, all are computed: no loop over the batch is left. Your "
        "grad went through vmap unchanged."
    ),
    saves="vmap",
)
