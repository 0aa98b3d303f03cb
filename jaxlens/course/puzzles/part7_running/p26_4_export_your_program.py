"""Puzzle 26.4, of the learner's own JAX."""

from dataclasses import replace
from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.own import run_stablehlo
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    close,
    edited,
    equal,
)
from jaxlens.course.puzzles.own_programs import RandomProgram, random_programs
from jaxlens.course.puzzles.references import reference


def check(
    export: Function,
    grad: Function,
    total: Function,
    sin: Function,
    cos: Function,
    exp: Function,
    relu: Function,
    apply: Function,
) -> Facts:
    first = export(lambda x: sin(x) * 2 + 1, (3,))
    hint = "Bytes can be stored and sent: `.encode()` makes them of text."
    yield equal("what export returns", type(first).__name__, "bytes", hint=hint)
    x = np.arange(3, dtype=np.float32)
    yield compiled("sin(x) * 2 + 1", first, (x,), np.sin(x) * 2 + 1)
    second = export(lambda x: exp(x) * cos(x), (3,))
    yield compiled("exp(x) * cos(x)", second, (x,), np.exp(x) * np.cos(x))

    def loss(w: Any, b: Any, x: Any) -> Any:
        return total(relu(x @ w + b) * relu(x @ w + b))

    random = np.random.default_rng(0)
    w, b, x = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (2,), (4, 3)))
    gradient = export(grad(loss), (3, 2), (2,), (4, 3))
    right = reference(
        "gradient of a layer's squares",
        lambda jax: jax.grad(lambda w: (jax.nn.relu(x @ w + b) ** 2).sum())(w),
    )
    yield compiled("the gradient of a layer", gradient, (w, b, x), right)
    for program in random_programs(apply, 3):
        text = f"the gradient of {program.text}"
        gradient = export(grad(lambda x, f=program.own: total(f(x))), x.shape)

        def by_jax(jax: Any, program: RandomProgram = program) -> Any:
            f = program.by_jax(jax)
            return jax.jit(jax.grad(lambda x: f(x).sum()))(x)

        right = reference(f"{text} at four rows", by_jax)
        yield replace(compiled(text, gradient, (x,), right), evidence=None)


def compiled(name: str, program: bytes, arrays: tuple[Any, ...], wanted: Any) -> Fact:
    """Compiles a program with XLA and compares what it computes."""
    text = program.decode()
    try:
        result = run_stablehlo(text, *arrays)
    except ValueError as error:
        reason = str(error).partition("\n")[0].rpartition("error: ")[2]
        hint = "XLA does not take this text. Compare your line with that of `stablehlo.maximum`."
        if "unknown" in reason:
            hint = "Such an op does not exist. Are the words StableHLO's own?"
        elif "undeclared" in reason:
            hint = "An equation wrote no line. Is its op in one of the tables?"
        return Fact(name, "a program that compiles", reason, False, hint)
    fact = close(name, result, wanted, rtol=1e-3)
    return replace(fact, evidence=Proof(jaxlens.compile, (text,)))


SOLUTION = """\
def _type(shape, element="f32"):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _fit(lines, x, shapes, shape):
    '''Names `x` with this shape: a number becomes a constant, a smaller array is broadcast.'''
    name = f"t{len(lines)}"
    if not isinstance(x, str):
        equal = np.size(x) and np.all(x == np.ravel(x)[0])
        numbers = float(np.ravel(x)[0]) if equal else np.broadcast_to(x, shape).tolist()
        lines.append(f"%{name} = stablehlo.constant dense<{numbers}> : {_type(shape)}")
        return name
    if shapes[x] == shape:
        return x
    dims = list(range(len(shape) - len(shapes[x]), len(shape)))
    types = f"({_type(shapes[x])}) -> {_type(shape)}"
    lines.append(f"%{name} = stablehlo.broadcast_in_dim %{x}, dims = {dims} : {types}")
    return name


def lower(program, *shapes):
    shapes = dict(zip(program.inputs, shapes))
    arguments = ", ".join(f"%{x}: {_type(s)}" for x, s in shapes.items())
    lines = []
    for eqn in program.eqns:
        out, t = eqn.output, _type(eqn.shape)
        names = [x for x in eqn.inputs if not isinstance(x, tuple)]
        types = [_type(shapes[x]) for x in names if isinstance(x, str)]
        x = names[0]
        if eqn.op in UNARY or eqn.op in BINARY:
            fitted = ", ".join(f"%{_fit(lines, x, shapes, eqn.shape)}" for x in names)
            word = (UNARY | BINARY)[eqn.op]
            lines.append(f"%{out} = stablehlo.{word} {fitted} : {t}")
        elif eqn.op == "relu":
            zero = _fit(lines, 0.0, shapes, eqn.shape)
            lines.append(f"%{out} = stablehlo.maximum %{x}, %{zero} : {t}")
        elif eqn.op == "step":
            zero = _fit(lines, 0.0, shapes, eqn.shape)
            bits = _type(eqn.shape, "i1")
            lines.append(f"%{out}b = stablehlo.compare GT, %{x}, %{zero} : ({t}, {t}) -> {bits}")
            lines.append(f"%{out} = stablehlo.convert %{out}b : ({bits}) -> {t}")
        elif eqn.op == "dot":
            lines.append(
                f"%{out} = stablehlo.dot_general %{names[0]}, %{names[1]}, "
                f"contracting_dims = [1] x [0] : ({types[0]}, {types[1]}) -> {t}"
            )
        elif eqn.op == "transpose":
            lines.append(f"%{out} = stablehlo.transpose %{x}, dims = [1, 0] : ({types[0]}) -> {t}")
        elif eqn.op == "broadcast":
            fitted = _fit(lines, x, shapes, eqn.shape)
            lines.append(f"%{out} = stablehlo.reshape %{fitted} : ({t}) -> {t}")
        elif eqn.op == "reshape":
            lines.append(f"%{out} = stablehlo.reshape %{x} : ({types[0]}) -> {t}")
        elif eqn.op == "sum_to":
            extra = len(shapes[x]) - len(eqn.shape)
            axes = [i for i, n in enumerate(shapes[x]) if i < extra or eqn.shape[i - extra] != n]
            kept = tuple(n for i, n in enumerate(shapes[x]) if i not in axes)
            zero = _fit(lines, 0.0, shapes, ())
            lines.append(
                f"%{out}s = stablehlo.reduce(%{x} init: %{zero}) applies stablehlo.add across "
                f"dimensions = {axes} : ({types[0]}, tensor<f32>) -> {_type(kept)}"
            )
            lines.append(f"%{out} = stablehlo.reshape %{out}s : ({_type(kept)}) -> {t}")
        shapes[out] = eqn.shape
    result = _type(shapes[program.output])
    lines.append(f"return %{program.output} : {result}")
    head = f"func.func public @main({arguments}) -> {result}"
    body = "\\n    ".join(lines)
    return f"module {{\\n  {head} {{\\n    {body}\\n  }}\\n}}\\n"


UNARY = {"sin": "sine", "cos": "cosine", "exp": "exponential", "log": "log"}
BINARY = {"add": "add", "mul": "multiply"}


def export(f, *shapes):
    return lower(trace(f, *shapes), *shapes).encode()
"""

PUZZLE = Puzzle(
    id="26.4",
    title="Export your program",
    task="""\
Your programs run in Python, one equation at a time. Here they become **StableHLO**, the
language that XLA takes: then they are compiled like any of JAX's, and every lens works on them.
Most of `lower` is there. Fill in the tables of words for `sin`, `cos`, `exp`, `log`, `add` and
`mul` (StableHLO names its ops as HLO does, see the table of lesson 20), the line for those ops, and
`export`, which returns the program as bytes.
""",
    starter=edited(
        SOLUTION,
        (
            """\
            fitted = ", ".join(f"%{_fit(lines, x, shapes, eqn.shape)}" for x in names)
            word = (UNARY | BINARY)[eqn.op]
            lines.append(f"%{out} = stablehlo.{word} {fitted} : {t}")
""",
            """\
            fitted = ", ".join(f"%{_fit(lines, x, shapes, eqn.shape)}" for x in names)
            word = (UNARY | BINARY)[eqn.op]
            ...  # append the line; `stablehlo.maximum` below shows the form
""",
        ),
        (
            """\
UNARY = {"sin": "sine", "cos": "cosine", "exp": "exponential", "log": "log"}
BINARY = {"add": "add", "mul": "multiply"}""",
            """\
UNARY = {}  # ours -> StableHLO: "sin": ...
BINARY = {}""",
        ),
        (
            "    return lower(trace(f, *shapes), *shapes).encode()",
            "    ...  # trace, lower, and make bytes of the text",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ('"sin": "sine"', '"sin": "sin"')),
            "StableHLO",
        ),
        WrongAnswer(
            edited(SOLUTION, ('"exp": "exponential"', '"exp": "exp"')),
            "StableHLO's own",
        ),
        WrongAnswer(
            edited(SOLUTION, ('"cos": "cosine", ', "")),
            "Is its op in one of the tables",
        ),
        WrongAnswer(
            edited(SOLUTION, ("stablehlo.{word} {fitted}", "stablehlo.{word}({fitted})")),
            "Compare your line",
        ),
        WrongAnswer(
            edited(SOLUTION, (".encode()", "")),
            "bytes",
        ),
    ),
    hints=(
        (
            "Run `%hlo --stage stablehlo` on a function with sin, cos, exp, +, and *: what "
            "are the ops called?"
        ),
        (
            "A line looks like `%v0 = stablehlo.add %x0, %x1 : tensor<3xf32>`; `fitted` has "
            "the operands, `t` the type."
        ),
        (
            '`lines.append(f"%{out} = stablehlo.{word} {fitted} : {t}")`, and `lower(trace(f, '
            "*shapes), *shapes).encode()`."
        ),
    ),
    check=check,
    after=(
        "XLA compiled what you traced, differentiated and lowered: from here on it is a "
        "program like any other."
    ),
    saves="lower and export",
)
