"""Puzzle 16.5, on jaxlens.core."""

from dataclasses import replace
from typing import Any

import jaxlens
from jaxlens import core
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, edited, equal


def check(scale: Function) -> Facts:
    def by_three(x: Any) -> Any:
        return scale(x, 3)

    yield close("scale(2.0, 3)", by_three(2.0), 6.0)
    _, change = core.jvp(by_three, (2.0,), (1.0,))
    yield close("change along 1", change, 3.0)
    ran = []

    def note(event: Any) -> None:
        if event.kind == "rule":
            ran.append((event.name, event.detail.get("rule")))

    with core.listen(note):
        gradient = core.grad(by_three)(2.0)
    hint = "What comes back must be scaled as well: x counts k times in the result."
    fact = close("gradient of scale(x, 3)", gradient, 3.0, hint=hint)
    yield replace(fact, evidence=Proof(jaxlens.jaxpr, (core.grad(by_three), 2.0)))
    hint = "The rule of jvp must send the tangent through `scale`, and not through a product."
    yield equal("transpose rule of scale ran", ("scale", "transpose") in ran, True, hint=hint)
    gradient = core.grad(lambda x: scale(scale(x, 2), 5))(1.0)
    yield close("gradient of scale(scale(x, 2), 5)", gradient, 10.0, hint="Each has its own k.")


SOLUTION = """\
from jaxlib.mlir.dialects import stablehlo

scale_p = core.Primitive("scale")


def scale(x, k):  # k times x, for a whole number k
    return scale_p.bind(x, k=k)


@scale_p.rule("abstract")
def _(x, *, k):
    return x


@scale_p.rule("lower")
def _(context, x, *, k):
    result = x
    for _ in range(k - 1):
        result = stablehlo.add(result, x)
    return result


@scale_p.rule("jvp")
def _(primals, tangents, *, k):
    (x,), (t,) = primals, tangents
    return scale(x, k), scale(t, k)


@scale_p.rule("transpose")  # the cotangent of x, from that of the result; a list, one per input
def _(ct, x, *, k):
    return [scale(ct, k)]
"""

PUZZLE = Puzzle(
    id="16.5",
    title="Backwards through a linear step",
    task="""\
`scale(x, k)` is linear in `x`, and so its jvp rule is `scale` again. What goes forward through
`scale` must also be able to come back: write its **transpose rule**. It takes the cotangent `ct` of
the result and returns a list with the cotangent of `x`.
""",
    starter=edited(SOLUTION, ("    return [scale(ct, k)]", "    return [None]")),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(edited(SOLUTION, ("[scale(ct, k)]", "[ct]")), "scaled as well"),
        WrongAnswer(
            edited(
                SOLUTION, ("scale(x, k), scale(t, k)", "scale(x, k), t * k"), ("scale(ct, k)", "ct")
            ),
            "send the tangent through `scale`",
        ),
    ),
    cheats=(WrongAnswer(edited(SOLUTION, ("[scale(ct, k)]", "[scale(ct, 3)]")), "its own k"),),
    hints=(
        "`%jaxpr core.grad(lambda x: scale(x, 3))(2.0)`: which equation computes the gradient?",
        "If the result is 3 x, and it counts ct times in the end, how often does x count?",
        "`return [scale(ct, k)]`: a scaling is its own transpose.",
    ),
    check=check,
    after=(
        "JAX has no table of backward rules. It has jvp rules, whose part in the tangents is "
        "linear, and transposes that part."
    ),
)
