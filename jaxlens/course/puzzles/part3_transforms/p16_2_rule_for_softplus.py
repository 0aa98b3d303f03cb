"""Puzzle 16.2, of the learner's own JAX."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, close, edited, equal
from jaxlens.course.puzzles.own_programs import RandomProgram, alike, under


def check(
    softplus: Function,
    grad: Function,
    jvp: Function,
    trace: Function,
    jit: Function,
    vmap: Function,
    total: Function,
    RUN: Mapping[str, Any],  # noqa: N803
    JVP: Mapping[str, Any],  # noqa: N803
    BACK: Mapping[str, Any],  # noqa: N803
) -> Facts:
    tables = {"RUN": RUN, "JVP": JVP, "BACK": BACK}
    xs = np.array([-2.0, 0.0, 3.0])
    with np.errstate(over="ignore", invalid="ignore"):
        hint = "It must stay log(1 + exp(x))."
        yield close("softplus at -2, 0 and 3", softplus(xs), np.logaddexp(0, xs), hint=hint)
        hint = "exp(1000) is infinite: the operation and its rule must do without it."
        yield close("softplus at 1000", softplus(1000.0), 1000.0, hint=hint)
        ops = [eqn.op for eqn in trace(softplus, ()).eqns]
        one = "One operation: `return apply('softplus', x)`."
        yield equal("equations of softplus", len(ops), 1, hint=one)
        lacks = [name for name, table in tables.items() if ops[0] not in table]
        entry = f"`{ops[0]}` needs an entry in each of RUN, JVP and BACK."
        yield equal("tables without an entry", lacks, [], hint=entry)
        is_tuple = isinstance(BACK[ops[0]](1.0, 0.5), tuple | list)
        entry = "A rule of BACK returns a tuple, here with one cotangent: `(ct * ...,)`."
        yield Fact(
            "BACK returns", "a tuple", "a tuple" if is_tuple else "a number", is_tuple, entry
        )
        yield close("gradient at 1000", grad(softplus)(1000.0), 1.0, hint=hint)
        slope = "The derivative of softplus is the sigmoid, 1 / (1 + exp(-x))."
        yield close("gradient at 0", grad(softplus)(0.0), 0.5, hint=slope)
        yield close("gradient at -1000", grad(softplus)(-1000.0), 0.0, hint=hint)
        _, change = jvp(softplus, (0.0,), (2.0,))
        yield close("jvp at 0 along 2", change, 1.0, hint=slope)
    hint = (
        "The rules must work on tracers too, and a Tracer has `+`, `*` and `@` only: make the "
        "sigmoid an operation, with an entry in RUN."
    )
    for name, f in (("grad", grad(softplus)), ("jvp", lambda x: jvp(softplus, (x,), (1.0,))[1])):
        yield Fact(f"{name} of softplus can be traced", "yes", *_traceable(trace, f), hint)
    names = {"jit": jit, "jvp": jvp, "grad": grad, "total": total, "vmap": vmap}
    both = product(("jit", "vmap", "jvp", "grad"), repeat=2)
    stacks = [pair for pair in both if not set(pair) <= {"jvp", "grad"}]  # sigmoid has no rules
    programs = [RandomProgram("softplus(x)", softplus, lambda jax: jax.nn.softplus)]
    yield alike("softplus under pairs of transforms", under(stacks, programs, **names), hint)


def _traceable(trace: Function, f: Function) -> tuple[str, bool]:
    try:
        return ("yes", True) if trace(f, ()).eqns else ("no", False)
    except (TypeError, AttributeError) as error:
        return str(error).partition("\n")[0], False


SOLUTION = """\
RUN["softplus"] = lambda x: np.logaddexp(0.0, x)


def softplus(x):
    return apply("softplus", x)


def sigmoid(x):
    return apply("sigmoid", x)


RUN["sigmoid"] = lambda x: 0.5 * (1.0 + np.tanh(0.5 * x))
JVP["softplus"] = lambda x, dx: dx * sigmoid(x)
BACK["softplus"] = lambda ct, x: (ct * sigmoid(x),)
"""

PUZZLE = Puzzle(
    id="16.2",
    title="A stable rule",
    task="""\
`softplus` is made of `exp` and `log`, and so is its gradient: at x = 1000, `exp(x)` is infinite
and the gradient is nan. Make `softplus` **an operation of its own**, with entries in `RUN`, `JVP`
and `BACK` that stay finite. A `Tracer` has `+`, `*` and `@`, but no `-` and no `/`: anything else
that a rule needs must be an operation too.
""",
    starter="""\
def softplus(x):
    '''log(1 + exp(x)): smooth, and close to relu.'''
    return apply("log", exp(x) + 1.0)


JVP["log"] = lambda x, dx: dx * apply("reciprocal", x)
BACK["log"] = lambda ct, x: (ct * apply("reciprocal", x),)
RUN["reciprocal"] = lambda x: 1.0 / x
BACK["reciprocal"] = lambda ct, x: (ct * apply("reciprocal", x * x) * -1.0,)
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    'BACK["softplus"] = lambda ct, x: (ct * sigmoid(x),)',
                    'BACK["softplus"] = lambda ct, x: (ct,)',
                ),
            ),
            "sigmoid",
        ),
        WrongAnswer(
            """\
def softplus(x):
    '''log(1 + exp(x)): smooth, and close to relu.'''
    return x


JVP["log"] = lambda x, dx: dx * apply("reciprocal", x)
BACK["log"] = lambda ct, x: (ct * apply("reciprocal", x),)
RUN["reciprocal"] = lambda x: 1.0 / x
BACK["reciprocal"] = lambda ct, x: (ct * apply("reciprocal", x * x) * -1.0,)
""",
            "log(1 + exp(x))",
        ),
        WrongAnswer(
            edited(SOLUTION, ('JVP["softplus"] = lambda x, dx: dx * sigmoid(x)\n', "")),
            "needs an entry in each",
        ),
        WrongAnswer(edited(SOLUTION, ("(ct * sigmoid(x),)", "ct * sigmoid(x)")), "returns a tuple"),
        WrongAnswer(
            edited(SOLUTION, ("ct * sigmoid(x)", "ct / (1.0 + exp(-x))")), "work on tracers too"
        ),
    ),
    hints=(
        "Which number overflows at x = 1000? Roughly, what is log(1 + exp(x)) there?",
        (
            "`np.logaddexp(0.0, x)` computes it without overflow. Its derivative is the "
            "sigmoid, 1 / (1 + exp(-x)), which `np.tanh` gives without overflow: 0.5 * (1 + "
            "tanh(x / 2))."
        ),
        (
            "Two operations: `RUN['softplus']`, and `RUN['sigmoid']` for the rules: "
            "`BACK['softplus'] = lambda ct, x: (ct * sigmoid(x),)`."
        ),
    ),
    check=check,
    after=(
        "A rule of your own replaces the derivative that the chain rule would give. "
        "jax.custom_jvp and jax.custom_vjp do this."
    ),
    saves="softplus",
)
