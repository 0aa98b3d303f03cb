"""Puzzle 5.1."""

import gc
import inspect
import weakref
from typing import Any

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, equal


def check(step: Function) -> Facts:
    import jax

    inputs = len(inspect.signature(step).parameters)
    hint = "A program knows only what is passed to it: `step(x, count)`."
    yield equal("arguments of step", inputs, 2, hint=hint)
    jitted = jax.jit(lambda x, count: step(x, count))
    results: list[float] = []
    number: Any = 0
    for _ in range(3):
        returned = jitted(2.0, number)
        hint = "A program remembers nothing: it must return the product and the new count."
        length = len(returned) if isinstance(returned, tuple | list) else 1
        if not results:
            yield equal("values that step returns", length, 2, hint=hint)
        result, number = returned
        results.append(float(result))
    hint = "The product is taken with the new count: 1 in the first call, 2 in the second."
    yield close("step(2., count) of three calls", results, [2.0, 4.0, 6.0], hint=hint)
    yield close("the count after three calls", number, 3)
    tape = jaxlens.tape(step, 2.0, 0)
    hint = "That happened while JAX traced; no later call of the program does it again."
    proof = Proof(jaxlens.tape, (step, 2.0, 0))
    yield equal("changed while tracing", tape.wrote, (), hint=hint, evidence=proof)
    stand_ins: list[Any] = []

    def watched(x: Any, count: Any) -> Any:
        returned = step(x, count)
        stand_ins.extend(weakref.ref(leaf) for leaf in jax.tree.leaves(returned))
        return returned

    jax.jit(watched)(2.0, 0)
    gc.collect()
    leaks = any(reference() is not None for reference in stand_ins)
    hint = "A stand-in is kept outside of the function, where it has no meaning."
    yield equal(
        "what step leaves outside", "a stand-in" if leaks else "nothing", "nothing", hint=hint
    )


PUZZLE = Puzzle(
    id="5.1",
    title="A counter that counts",
    task="""\
Under `jit` this counter stops at 1: the global changes while JAX traces, and never again. Write
`step(x, count)`, which **changes nothing outside**. It returns two values: `x` times the new count,
and the new count, which the caller passes to the next call.
""",
    starter="""\
count = 0


def step(x):
    global count
    count += 1
    return x * count
""",
    solution="""\
def step(x, count):
    count = count + 1
    return x * count, count
""",
    wrong=(
        WrongAnswer(
            """\
log = []


def step(x, count):
    log.append(count)
    return x * (count + 1), count + 1
""",
            "That happened while JAX traced",
        ),
        WrongAnswer(
            """\
def step(x, count):
    return x * (count + 1)
""",
            "it must return",
        ),
        WrongAnswer(
            """\
def step(x, count):
    return x * count, count + 1
""",
            "the new count",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
counts = [0]


def step(x, count):
    counts[0] = count + 1
    return x * counts[0], counts[0]
""",
            "is kept outside",
        ),
        WrongAnswer(
            """\
def step(x, count):
    return x * (count + 1), 1
""",
            "the new count",
        ),
    ),
    hints=(
        "`%jaxpr --tape step(2.0)` names what was changed while tracing.",
        "An array that goes in and comes out is all that a program can remember.",
        "Return a pair, `x * (count + 1), count + 1`, and let the caller keep the second.",
    ),
    check=check,
    after=(
        "State in, state out: optimisers and JAX's random keys work like this for the same reason."
    ),
)
