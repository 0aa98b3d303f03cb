"""Predictions of lessons 18 to 21: HLO, its passes, fusion, and the processor."""

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _language_of_as_text(names: Names) -> Truth:
    import jax

    text = jax.jit(names["f"]).lower(names["x"]).as_text()
    return Truth("StableHLO" if "stablehlo." in text else "HLO")


def _instructions_of_a_line(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    return Truth(len(tuple(capture.hlo.module.nodes())), jaxlens.hlo(capture, stage="hlo"))


def _op_that_chooses(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    found = {node.opcode for node in capture.hlo.module.nodes()}
    word = next(name for name in ("if", "where", "conditional", "select") if name in found)
    return Truth(word, jaxlens.hlo(capture, stage="hlo"))


def _computations_of_a_sum(names: Names) -> Truth:
    view = jaxlens.hlo(jaxlens.capture(names["f"], names["x"]), stage="hlo")
    return Truth(sum(line.rstrip() == "}" for line in str(view).splitlines()), view)


def _fate_of_a_root(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"], names["w"])
    [root] = [node for node in capture.jaxpr.module.nodes() if node.opcode == "sqrt"]
    return Truth(capture.links.fate(root.id).name, jaxlens.hlo(capture))


def _sines_that_are_left(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    left = sum(node.opcode == "sine" for node in capture.optimized.module.nodes())
    return Truth(left, jaxlens.hlo(capture))


def _sine_times_zero(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    left = any(node.opcode == "sine" for node in capture.optimized.module.nodes())
    return Truth("yes" if left else "no", jaxlens.hlo(capture))


_LINE = """
def f(x):
    return x * 2 + 1

x = jnp.arange(5.0)
"""

PREDICTIONS = (
    Prediction(
        "18.a",
        "Which language does `print(jax.jit(f).lower(x).as_text())` show?",
        _LINE,
        _language_of_as_text,
        "`lower` writes StableHLO. XLA turns it into HLO when it compiles.",
        choices=("HLO", "StableHLO"),
    ),
    Prediction(
        "18.b",
        "How many instructions has the HLO of `f`, before optimisation? The jaxpr has 2 equations.",
        _LINE,
        _instructions_of_a_line,
        "Besides multiply and add: the parameter, two constants, and a broadcast for each.",
    ),
    Prediction(
        "18.c",
        "Which HLO op chooses?",
        """
def f(x):
    return jnp.where(x > 0, x, 0.0)

x = jnp.arange(-2.0, 3.0)
""",
        _op_that_chooses,
        "A select takes both arrays, ready computed. `conditional` is for `lax.cond`.",
        choices=("if", "where", "conditional", "select"),
    ),
    Prediction(
        "18.d",
        "How many computations (blocks in braces) has the HLO of `f`?",
        """
def f(x):
    return x.sum()

x = jnp.arange(5.0)
""",
        _computations_of_a_sum,
        "The entry, and one that adds two numbers: reduce is told what to do with a pair.",
    ),
    Prediction(
        "19.a",
        "What becomes of `jnp.sqrt(2.0)`?",
        """
def f(x, w):
    hidden = jnp.tanh(x @ w)
    unused = jnp.sin(hidden)
    scale = jnp.sqrt(2.0)
    return hidden * scale + hidden * scale

x, w = jnp.ones((16, 64)), jnp.ones((64, 32))
""",
        _fate_of_a_root,
        "Its operand is a constant, so the compiler computes it, and the program holds the result.",
        choices=("kept", "fused", "merged", "folded", "dead"),
    ),
    Prediction(
        "19.b",
        "How many sines does the optimised program compute?",
        """
def f(x):
    return sum(jnp.sin(x) for _ in range(8))

x = jnp.ones(64)
""",
        _sines_that_are_left,
        "All eight are the same operation on the same operand: one value.",
    ),
    Prediction(
        "19.c",
        "Is the sine still computed?",
        """
def f(x):
    return jnp.sin(x) * 0.0

x = jnp.ones(64)
""",
        _sine_times_zero,
        "0 times NaN is NaN, and the sine of infinity is NaN: XLA may not assume a zero.",
        choices=("yes", "no"),
    ),
)
