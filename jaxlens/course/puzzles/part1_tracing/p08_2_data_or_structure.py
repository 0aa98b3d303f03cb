"""Puzzle 8.2."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, at_most, close, edited


def check(Config: Function) -> Facts:  # noqa: N803 - the name of a class
    import jax
    import jax.numpy as jnp

    @jax.jit
    def scaled(config: Any, x: Any) -> Any:
        return x * config.scale

    config = Config(0.1)
    if any(leaf is config for leaf in jax.tree.leaves(config)):
        hint = "JAX does not know this class any more: it must be registered."
        yield Fact("arrays of a Config", "scale", "none", False, hint)
        return
    x, scales = jnp.float32(10), (0.1, 0.2, 0.3)
    with jaxlens.recompiles() as log:
        results = [scaled(Config(scale), x) for scale in scales]
    found = [float(result) for result in results]
    hint = "The program of the first scale served the others too: to JAX they were all equal."
    yield close("10 * scale for 0.1, 0.2, 0.3", found, [1.0, 2.0, 3.0], hint=hint)
    hint = "The scale is part of the structure, and the structure is part of the key."
    yield at_most("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)


_STATIC = """\
from dataclasses import dataclass, field


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    scale: float = field(metadata=dict(static=True))
"""

_WHOLE = """\
from dataclasses import dataclass


@jax.tree_util.register_static
@dataclass(frozen=True)
class Config:
    scale: float
"""

PUZZLE = Puzzle(
    id="8.2",
    title="Data or structure",
    task="""\
A jitted function takes a `Config` and multiplies by its `scale`. It is called with scales 0.1, 0.2
and 0.3, and compiled three times. Change `Config` so that it is compiled **once**.
""",
    starter=_STATIC,
    solution="""\
from dataclasses import dataclass


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    scale: float
""",
    wrong=(
        WrongAnswer(_WHOLE, "part of the key"),
        WrongAnswer(
            "class Config:\n    def __init__(self, scale):\n        self.scale = scale\n",
            "does not know this class any more",
        ),
    ),
    cheats=(
        WrongAnswer(
            edited(
                _WHOLE,
                ("import dataclass\n", "import dataclass, field\n"),
                ("scale: float", "scale: float = field(compare=False)"),
            ),
            "they were all equal",
        ),
    ),
    hints=(
        "Run `jaxlens.key(lambda c: c.scale, Config(0.1))`: where does 0.1 stand?",
        "`static=True` takes a field out of the inputs and puts it into the structure.",
        "A number that changes from call to call is data: declare the field without `static=True`.",
    ),
    check=check,
    after="As data, the scale is an input like any other: new values need no new program.",
)
