"""Puzzle 19.2."""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp

import jaxlens
from jaxlens.course.puzzle import Fact, Proof, Puzzle, WrongAnswer, at_least, equal


def check(f: Callable[..., Any]) -> Iterator[Fact]:
    capture = jaxlens.capture(f, jnp.ones(64))
    sines = [node for node in capture.jaxpr.module.nodes() if node.opcode == "sin"]
    hint = "Python's loops unroll: `for _ in range(8)` records its body eight times."
    proof = Proof(jaxlens.jaxpr, (capture,))
    yield at_least("sin in the jaxpr", len(sines), 8, hint=hint, evidence=proof)
    dead = sum(capture.links.fate(node.id).name == "dead" for node in sines)
    hint = "These never reached XLA. Use every sine in the result."
    yield equal("sin that nothing reads", dead, 0, hint=hint, evidence=proof)
    left = sum(node.opcode == "sine" for node in capture.optimized.module.nodes())
    hint = (
        "Only equal operations on equal operands have the same value. Do yours have the same?"
        if left
        else "One sine must be left to compute."
    )
    proof = Proof(jaxlens.hlo, (capture,), {"stage": "optimized"})
    yield equal("sine in the optimised program", left, 1, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="19.2",
    title="Eight sines, one left",
    task="""\
Write a function of `x`, an `f32[64]`, with **at least eight** `sin` in its jaxpr. Its result uses
them all, and XLA computes **one**.
""",
    starter="""\
def f(x):
    return jnp.sin(x)
""",
    solution="""\
def f(x):
    return sum(jnp.sin(x) for _ in range(8))
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    return sum(jnp.sin(x + i) for i in range(8))\n",
            "equal operations on equal operands",
        ),
        WrongAnswer(
            "def f(x):\n    for _ in range(8):\n        x = jnp.sin(x)\n    return x\n",
            "equal operations on equal operands",
        ),
        WrongAnswer(
            "def f(x):\n    sines = [jnp.sin(x) for _ in range(8)]\n    return sines[0]\n",
            "Use every sine",
        ),
        WrongAnswer(
            "def f(x):\n    return lax.fori_loop(0, 8, lambda i, y: y + jnp.sin(x), x)\n",
            "Python's loops unroll",
        ),
    ),
    hints=(
        "`%hlo --pass cse f(x)` shows what was merged, and with what.",
        "What must be the same for two `sin` to have the same value?",
        "Add up `jnp.sin(x)` eight times.",
    ),
    check=check,
    after="Writing a value twice costs nothing at run time: cse keeps one.",
)
