"""Predictions of lessons 18 to 21: HLO, passes, fusion and machine code."""

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _instructions_of_the_entry(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"], names["w"])
    module = capture.hlo.module
    return Truth(len(module.regions[module.entry].nodes), jaxlens.hlo(capture, stage="hlo"))


def _products_of_a_power(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    products = sum(node.opcode == "multiply" for node in capture.hlo.module.nodes())
    return Truth(products, jaxlens.hlo(capture, stage="hlo"))


def _op_that_chooses(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    found = {node.opcode for node in capture.hlo.module.nodes()}
    word = next(name for name in ("if", "where", "conditional", "select") if name in found)
    return Truth(word, jaxlens.hlo(capture, stage="hlo"))


def _computations_of_a_choice(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    return Truth(len(capture.hlo.module.regions), jaxlens.hlo(capture, stage="hlo"))


def _fate_of_a_root(names: Names) -> Truth:
    capture = jaxlens.capture(names["layer"], names["x"], names["w"])
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


PREDICTIONS = (
    Prediction(
        "18.a",
        "How many instructions has the block `ENTRY` of the HLO of `f`, before optimisation?",
        """
def f(x, w):
    return jnp.maximum(x @ w, 0.0).sum(axis=1)

x, w = jnp.ones((4, 8)), jnp.ones((8, 3))
""",
        _instructions_of_the_entry,
        "Besides the three: two parameters, a 0 and its broadcast, and a 0 where the sum begins.",
    ),
    Prediction(
        "18.b",
        "How many `multiply` has the HLO of `f`, before optimisation?",
        """
def f(x):
    return x ** 8

x = jnp.arange(5.0)
""",
        _products_of_a_power,
        "Squared, squared, and squared again: 2, 4, 8.",
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
    return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)

x = jnp.arange(5.0)
""",
        _computations_of_a_choice,
        "The entry, one for each case, and one that adds two numbers for the sum.",
    ),
    Prediction(
        "19.a",
        "What becomes of `jnp.sqrt(2.0)`?",
        """
def layer(x, w):
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
