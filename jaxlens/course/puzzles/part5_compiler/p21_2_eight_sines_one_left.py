"""Puzzle 21.2."""

import jax.numpy as jnp

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least, equal


def check(f: Function) -> Facts:
    capture = jaxlens.capture(f, jnp.ones(64))
    sines = [node for node in capture.jaxpr.module.nodes() if node.opcode == "sin"]
    hint = "Python's loops unroll: `for _ in range(8)` records its body eight times."
    proof = Proof(jaxlens.jaxpr, (capture,))
    yield at_least("sin in the jaxpr", len(sines), 8, hint=hint, evidence=proof)
    operands = len({node.operands for node in sines})
    hint = "Two of them read the same name. Give each one an equation of its own to read."
    yield equal("names that they read", operands, len(sines), hint=hint, evidence=proof)
    dead = sum(capture.links.fate(node.id).name == "dead" for node in sines)
    hint = "These never reached XLA. Use every sine in the result."
    yield equal("sin that nothing reads", dead, 0, hint=hint, evidence=proof)
    left = sum(node.opcode == "sine" for node in capture.optimized.module.nodes())
    hint = (
        "Only equal operations on equal operands have the same value. Have yours?"
        if left
        else "One sine must be left to compute."
    )
    proof = Proof(jaxlens.hlo, (capture,), {"stage": "optimized"})
    yield equal("sine in the optimised program", left, 1, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="21.2",
    title="Eight sines, one left",
    task="""\
Write a function of `x`, an `f32[64]`, with **at least eight** `sin` in its jaxpr, each of which
reads **a different name**. The result uses them all, and XLA still computes **one**.
""",
    starter="""\
def f(x):
    return jnp.sin(x)
""",
    solution="""\
def f(x):
    return sum(jnp.sin(x + 1) for _ in range(8))
""",
    wrong=(
        WrongAnswer("def f(x):\n    return sum(jnp.sin(x) for _ in range(8))\n", "the same name"),
        WrongAnswer(
            "def f(x):\n    for _ in range(8):\n        x = jnp.sin(x)\n    return x\n",
            "equal operations on equal operands",
        ),
        WrongAnswer(
            "def f(x):\n    return lax.fori_loop(0, 8, lambda i, y: y + jnp.sin(x), x)\n",
            "Python's loops unroll",
        ),
    ),
    cheats=(
        WrongAnswer(
            "def f(x):\n    sines = [jnp.sin(x + 1) for _ in range(8)]\n    return sines[0]\n",
            "Use every sine",
        ),
    ),
    hints=(
        "`%hlo --pass cse f(x)` shows what was merged, and with what.",
        "Two names may have the same value: `x + 1`, written twice, is two equations.",
        "Add up `jnp.sin(x + 1)` eight times.",
    ),
    check=check,
    after="What you write twice is computed once: the operands become one, and then the sines do.",
)
