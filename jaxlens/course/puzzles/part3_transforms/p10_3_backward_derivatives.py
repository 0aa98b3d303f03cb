"""Puzzle 10.3, of the learner's own JAX."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxlens.course.puzzle import Fact, Puzzle, WrongAnswer, close, edited, equal


def check(
    grad: Callable[..., Any], total: Callable[..., Any], relu: Callable[..., Any]
) -> Iterator[Fact]:
    yield close("gradient of 5 x at 2", grad(lambda x: x * 5)(2.0), 5.0)
    hint = "x is read twice here: what comes back along both ways is added."
    yield close("gradient of x * x at 3", grad(lambda x: x * x)(3.0), 6.0, hint=hint)
    random = np.random.default_rng(0)
    w, b, x = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (2,), (4, 3)))
    hint = "Mind the order of the two cotangents: the first belongs to the first input."
    of_product = grad(lambda w: total(x @ w))(w)
    yield equal("shape of the gradient of x @ w", np.shape(of_product), (3, 2), hint=hint)
    yield close("gradient of x @ w", of_product, x.sum(0)[:, None] + 0 * w)
    hint = "b was broadcast to four rows, so its cotangent is the sum of four."
    scaled = grad(lambda b: total(b * x[:, :2]))(b)
    yield close("gradient of b in b * x", scaled, x[:, :2].sum(0), hint=hint)

    def loss(w: Any) -> Any:
        return total(relu(x @ w + b) * relu(x @ w + b))

    right = jax.grad(lambda w: (jax.nn.relu(x @ w + b) ** 2).sum())(w)
    yield close("gradient of a layer's loss", grad(loss)(w), right, rtol=1e-3)
    twice = grad(grad(lambda x: x * x * x))(2.0)
    yield close("second derivative of x * x * x at 2", twice, 12.0)


SOLUTION = """\
RUN["broadcast"] = np.broadcast_to
RUN["transpose"] = lambda x: np.swapaxes(x, -1, -2)


def _sum_to(x, shape):
    extra = np.ndim(x) - len(shape)
    axes = [i for i, n in enumerate(np.shape(x)) if i < extra or (shape[i - extra] == 1 != n)]
    return np.sum(x, tuple(axes), keepdims=True).reshape(shape)


RUN["sum_to"] = _sum_to


def sum_to(x, shape):
    return x if np.shape(x) == shape else apply("sum_to", x, shape)


def broadcast(x, shape):
    return x if np.shape(x) == shape else apply("broadcast", x, shape)


def transpose(x):
    return apply("transpose", x)


JVP["sum_to"] = lambda x, shape, dx, _: sum_to(dx, shape)
JVP["broadcast"] = lambda x, shape, dx, _: broadcast(dx, shape)
JVP["transpose"] = lambda x, dx: transpose(dx)


def total(x):
    return sum_to(x, ())


BACK = {
    "add": lambda ct, x, y: (sum_to(ct, np.shape(x)), sum_to(ct, np.shape(y))),
    "mul": lambda ct, x, y: (sum_to(ct * y, np.shape(x)), sum_to(ct * x, np.shape(y))),
    "dot": lambda ct, x, y: (
        sum_to(ct @ transpose(y), np.shape(x)),
        sum_to(transpose(x) @ ct, np.shape(y)),
    ),
    "sin": lambda ct, x: (ct * cos(x),),
    "cos": lambda ct, x: (ct * (sin(x) * -1.0),),
    "exp": lambda ct, x: (ct * exp(x),),
    "relu": lambda ct, x: (ct * step(x),),
    "step": lambda ct, x: (ct * 0.0,),
    "sum_to": lambda ct, x, shape: (broadcast(ct, np.shape(x)), None),
    "broadcast": lambda ct, x, shape: (sum_to(ct, np.shape(x)), None),
    "transpose": lambda ct, x: (transpose(ct),),
}


def vjp(f, *primals):
    program = trace(f, *map(np.shape, primals))
    values = dict(zip(program.inputs, primals))
    for eqn in program.eqns:
        values[eqn.output] = apply(eqn.op, *[read(values, x) for x in eqn.inputs])

    def pull(ct):
        cts = {program.output: ct}
        for eqn in reversed(program.eqns):
            if eqn.output not in cts:
                continue
            inputs = [read(values, x) for x in eqn.inputs]
            for x, ct in zip(eqn.inputs, BACK[eqn.op](cts[eqn.output], *inputs)):
                if isinstance(x, str):
                    cts[x] = cts[x] + ct if x in cts else ct
        return tuple(cts.get(x, 0.0) for x in program.inputs)

    return values[program.output], pull


def grad(f):
    def gradient(*args):
        _, pull = vjp(f, *args)
        return pull(1.0)[0]

    return gradient
"""

PUZZLE = Puzzle(
    id="10.3",
    title="Derivatives backwards",
    task="""\
`vjp` runs a program forwards, keeps its values, and returns `pull`, which goes back through the
equations. A **cotangent** `ct` says how much the final result changes when a value does. Fill
in the backward rules of `mul`, `dot` and `relu`, and mend the line that forgets values that are
read **twice**.

Each rule returns a cotangent for each input, of that input's shape: `sum_to(ct, shape)` adds up
what broadcasting had repeated.
""",
    starter=edited(
        SOLUTION,
        (
            '"mul": lambda ct, x, y: (sum_to(ct * y, np.shape(x)), sum_to(ct * x, np.shape(y))),',
            '"mul": lambda ct, x, y: ...,',
        ),
        (
            """\
    "dot": lambda ct, x, y: (
        sum_to(ct @ transpose(y), np.shape(x)),
        sum_to(transpose(x) @ ct, np.shape(y)),
    ),""",
            '    "dot": lambda ct, x, y: ...,',
        ),
        ('"relu": lambda ct, x: (ct * step(x),),', '"relu": lambda ct, x: ...,'),
        (
            """\
            for x, ct in zip(eqn.inputs, BACK[eqn.op](cts[eqn.output], *inputs)):
                if isinstance(x, str):
                    cts[x] = cts[x] + ct if x in cts else ct
""",
            """\
            for x, ct in zip(eqn.inputs, BACK[eqn.op](cts[eqn.output], *inputs)):
                if isinstance(x, str):
                    cts[x] = ct  # and when x is read twice?
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("cts[x] = cts[x] + ct if x in cts else ct", "cts[x] = ct")),
            "read twice",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ("(sum_to(ct * y, np.shape(x)), sum_to(ct * x, np.shape(y)))", "(ct * y, ct * x)"),
            ),
            "broadcast",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
sum_to(ct @ transpose(y), np.shape(x)),
        sum_to(transpose(x) @ ct, np.shape(y)),""",
                    """\
sum_to(transpose(x) @ ct, np.shape(y)),
        sum_to(ct @ transpose(y), np.shape(x)),""",
                ),
            ),
            "order",
        ),
    ),
    hints=(
        ("If z = x * y, how much does the result change with x, when it changes by ct with z?"),
        (
            "`mul`: ct * y and ct * x. `dot`: the shapes leave one choice, ct @ yᵀ and xᵀ @ "
            "ct. Both through `sum_to`."
        ),
        ("When a value already has a cotangent, add: `cts[x] = cts[x] + ct if x in cts else ct`."),
    ),
    check=check,
    after=(
        "Reverse mode keeps the values of the forward pass and goes back through the same "
        "equations. It is your program that is traced twice in grad(grad(f))."
    ),
    saves="vjp and grad",
)
