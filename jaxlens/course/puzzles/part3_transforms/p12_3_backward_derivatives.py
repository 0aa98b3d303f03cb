"""Puzzle 12.3, of the learner's own JAX."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, close, edited, equal
from jaxlens.course.puzzles.own_programs import alike, pairs, random_programs, under
from jaxlens.course.puzzles.references import reference


def check(
    grad: Function,
    total: Function,
    relu: Function,
    trace: Function,
    apply: Function,
    jit: Function,
    jvp: Function,
    BACK: Mapping[str, Function],  # noqa: N803
) -> Facts:
    square, wide = np.ones((2, 2)), np.ones((2, 3))
    hint = "A tuple with a cotangent for each input: `(a, b)` for two, `(a,)` for one."
    for op, inputs in (("mul", (square, square)), ("relu", (square,))):
        cts = BACK[op](square, *inputs)
        count = len(cts) if isinstance(cts, tuple | list) else 0
        yield equal(f"cotangents that the rule of {op} returns", count, len(inputs), hint=hint)
    try:
        cts = BACK["dot"](np.ones((2, 4)), wide, np.ones((3, 4)))
        shapes = [np.shape(ct) for ct in cts] if isinstance(cts, tuple | list) else []
        found = " and ".join(map(str, shapes)) or "no tuple"
    except ValueError:
        found = "shapes that do not multiply"
        hint = (
            "For x of shape (2, 3) and y of (3, 4), ct has the shape of x @ y, (2, 4). Which "
            "product of ct and y, one of them transposed, has the shape of x?"
        )
    wanted = "(2, 3) and (3, 4)"
    order = "Mind the order of the two cotangents: the first belongs to the first input."
    hint = order if found == "(3, 4) and (2, 3)" else hint
    holds = found == wanted
    yield Fact("shapes of the cotangents of x and y in x @ y", wanted, found, holds, hint)
    hint = "Going back through x * y gives ct * y to x, and ct * x to y."
    try:
        gradient = grad(lambda x: x * 5)(2.0)
    except KeyError as error:
        first = "The first cotangent of a value has nothing to be added to yet."
        yield Fact("gradient of 5 x at 2", "5", f"KeyError: {error}", False, first)
        return
    yield close("gradient of 5 x at 2", gradient, 5.0, hint=hint)
    hint = "x is read twice here: what comes back along both ways is added."
    yield close("gradient of x * x at 3", grad(lambda x: x * x)(3.0), 6.0, hint=hint)
    random = np.random.default_rng(0)
    w, b, x = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (2,), (4, 3)))
    of_product = grad(lambda w: total(x @ w))(w)
    yield close("gradient of x @ w", of_product, x.sum(0)[:, None] + 0 * w)
    hint = "b was broadcast to four rows, so its cotangent is the sum of four."
    scaled = grad(lambda b: total(b * x[:, :2]))(b)
    yield close("gradient of b in b * x", scaled, x[:, :2].sum(0), hint=hint)

    signs = np.array([1.0, -1.0])

    def loss(w: Any) -> Any:
        return total(relu(x @ w + b) * (x @ w) * signs)

    right = reference(
        "gradient of a layer's loss",
        lambda jax: jax.grad(lambda w: (jax.nn.relu(x @ w + b) * (x @ w) * signs).sum())(w),
    )
    hint = "relu lets a cotangent of either sign through where its input is above 0: `step`."
    yield close("gradient of a layer's loss", grad(loss)(w), right, rtol=1e-3, hint=hint)
    hint = "The rules must work on tracers too: `transpose` and `step`, not NumPy's functions."
    yield Fact("grad(loss) can be traced", "yes", *_traceable(trace, grad(loss)), hint)
    twice = grad(grad(lambda x: x * x * x))(2.0)
    yield close("second derivative of x * x * x at 2", twice, 12.0)
    names = {"jit": jit, "jvp": jvp, "grad": grad, "total": total}
    programs = random_programs(apply)
    cases = under([("grad",)], programs, **names)
    yield alike("random programs under grad", cases, "One rule is off for some of its inputs.")
    cases = under(pairs("grad", "jit", "jvp"), programs[:2], **names)
    yield alike("grad in pairs with jit and jvp", cases, hint)


def _traceable(trace: Function, gradient: Function) -> tuple[str, bool]:
    try:
        read = [x for eqn in trace(gradient, (3, 2)).eqns for x in eqn.inputs]
    except (TypeError, ValueError, AttributeError) as error:
        return str(error).partition("\n")[0], False
    return ("yes", True) if any(isinstance(x, str) and x == "x0" for x in read) else ("no", False)


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
    id="12.3",
    title="Derivatives backwards",
    task="""\
`vjp` runs a program forwards, keeps its values, and returns `pull`, which goes back through the
equations. Fill in the backward rules of `mul`, `dot` and `relu`, and fix the line that is wrong
for a value that is read **twice**.

Each rule returns a tuple: a cotangent for each input, of that input's shape. `sum_to(ct, shape)`
adds up what broadcasting had repeated. Compare with the rules that are there.
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
            edited(SOLUTION, ("cts[x] = cts[x] + ct if x in cts else ct", "cts[x] += ct")),
            "nothing to be added to",
        ),
        WrongAnswer(
            edited(SOLUTION, ("ct @ transpose(y)", "ct @ y")),
            "one of them transposed",
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
        WrongAnswer(edited(SOLUTION, ("(ct * step(x),)", "ct * step(x)")), "`(a,)` for one"),
        WrongAnswer(edited(SOLUTION, ("(ct * step(x),)", "(relu(ct),)")), "of either sign"),
        WrongAnswer(
            edited(
                SOLUTION,
                ("ct @ transpose(y)", "ct @ np.transpose(y)"),
                ("transpose(x) @ ct", "np.transpose(x) @ ct"),
            ),
            "not NumPy's functions",
        ),
    ),
    hints=(
        ("With z = x * y, the final result changes ct times as much as z. And how much with x?"),
        (
            "`mul`: ct * y and ct * x. `dot`: the shapes leave one choice, ct @ yᵀ and xᵀ @ "
            "ct. Both through `sum_to`."
        ),
        ("When a value already has a cotangent, add: `cts[x] = cts[x] + ct if x in cts else ct`."),
    ),
    check=check,
    after=(
        "Reverse mode keeps the values of the forward pass and goes back through the same "
        "equations. In `grad(grad(f))`, the second `grad` traces the program of the first."
    ),
    saves="vjp and grad",
)
