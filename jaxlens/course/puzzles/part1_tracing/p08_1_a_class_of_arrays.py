"""Puzzle 8.1."""

from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer, close


def loss(p: Any, x: Any) -> Any:
    return (x @ p.w + p.b).sum()


def check(Line: Function) -> Facts:  # noqa: N803 - the name of a class
    import jax
    import jax.numpy as jnp

    line, x = Line(jnp.arange(3.0), jnp.float32(2)), jnp.ones((5, 3))
    wanted = ("p.b", "p.w")
    hint = "`Line(w, b)` must have `.w` and `.b`: the fields come in this order."
    yield close("Line(w, b).w", getattr(line, "w", None), [0, 1, 2], hint=hint)
    leaves = jax.tree.leaves(line)
    if any(leaf is line for leaf in leaves):
        hint = "To JAX a `Line` is one leaf of an unknown kind: the class is not registered."
        yield Fact("arrays of a Line", ", ".join(wanted), "none", False, hint)
        return
    capture = jaxlens.capture(loss, line, x)
    names = tuple(sorted(entry.name for entry in capture.program.inputs if entry.name != "x"))
    yield Fact(
        "arrays of a Line",
        ", ".join(wanted),
        ", ".join(names) or "none",
        names == wanted,
        _hint(names),
        Proof(jaxlens.key, (loss, line, x)),
    )
    hint = "When JAX puts a `Line` together again, each array must come back to its place."
    yield close("sum(x @ p.w + p.b)", jax.jit(loss)(line, x), 25.0, hint=hint)
    twice = jax.tree.map(lambda leaf: leaf * 2, line)
    is_line = isinstance(twice, type(line))
    found = np.append(np.asarray(twice.w), np.asarray(twice.b)) if is_line else type(twice).__name__
    yield close("w and b of jax.tree.map(twice, line)", found, [0, 2, 4, 4], hint=hint)


def _hint(names: tuple[str, ...]) -> str:
    if len(names) == 2:
        return "Both arrays are there, under numbers: `register_dataclass` would know their names."
    lost = [name for name in ("p.w", "p.b") if name not in names]
    if len(names) == 1:
        return (
            f"`{lost[0]}` is no input: it is part of the structure, so every value of it would "
            f"need a program of its own."
        )
    return "Both `w` and `b` hold numbers that change: both are data."


_NODE = """\
@jax.tree_util.register_pytree_node_class
class Line:
    def __init__(self, w, b):
        self.w, self.b = w, b

    def tree_flatten(self):
        return (self.w, self.b), None

    @classmethod
    def tree_unflatten(cls, structure, leaves):
        return cls(*leaves)
"""

PUZZLE = Puzzle(
    id="8.1",
    title="A class of arrays",
    task="""\
The check has a function `loss(p, x)`, which takes a `Line` and computes `(x @ p.w + p.b).sum()`.
JAX does not know this class. Change it so that JAX sees **two inputs, `p.w` and `p.b`**.
""",
    starter="""\
class Line:
    def __init__(self, w, b):
        self.w, self.b = w, b
""",
    solution="""\
from dataclasses import dataclass


@jax.tree_util.register_dataclass
@dataclass
class Line:
    w: jax.Array
    b: jax.Array
""",
    wrong=(
        WrongAnswer(
            "from dataclasses import dataclass\n\n\n@dataclass\nclass Line:\n"
            "    w: jax.Array\n    b: jax.Array\n",
            "not registered",
        ),
        WrongAnswer(
            """\
from dataclasses import dataclass, field


@jax.tree_util.register_dataclass
@dataclass
class Line:
    w: jax.Array
    b: jax.Array = field(metadata=dict(static=True))
""",
            "`p.b` is no input",
        ),
        WrongAnswer(_NODE, "under numbers"),
    ),
    cheats=(
        WrongAnswer(
            """\
from dataclasses import dataclass


@jax.tree_util.register_dataclass
@dataclass
class Line:
    w: jax.Array
    b: jax.Array

    def __post_init__(self):
        self.b = jnp.float32(2)
""",
            "w and b of",
        ),
    ),
    hints=(
        "Run `jax.tree.leaves(Line(jnp.ones(3), 1.0))`: what does JAX find in it?",
        "JAX takes a class apart once it is registered: see `jax.tree_util.register_dataclass`.",
        "Make it a dataclass with two fields, under `@jax.tree_util.register_dataclass`.",
    ),
    check=check,
    after="A registered class is taken apart at each call and put together again in the function.",
)
