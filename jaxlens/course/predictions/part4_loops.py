"""Predictions of lessons 18 and 19: loops in a program, and loops that are trees."""

from collections import Counter

import numpy as np

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _equations_of_five_steps(names: Names) -> Truth:
    capture = jaxlens.capture(names["root"], names["a"])
    return Truth(jaxlens.receipt(capture).equations, jaxlens.jaxpr(capture))


def _word_for_the_loop(names: Names) -> Truth:
    primitives = jaxlens.receipt(names["root"], names["a"]).primitives
    return Truth(next(name for name in ("for", "while", "scan") if name in primitives))


def _equations_that_time_adds(names: Names) -> Truth:
    one, fifty = (
        jaxlens.receipt(names["balances"], np.float32(100), np.ones(12 * years, np.float32))
        for years in (1, 50)
    )
    return Truth(fifty.equations - one.equations)


def _gradient_of_while(names: Names) -> Truth:
    import jax

    capture = jaxlens.capture(names["root"], names["a"])
    try:
        jax.grad(names["root"])(names["a"])
    except ValueError:
        return Truth("an error", jaxlens.jaxpr(capture))
    return Truth("a number", jaxlens.jaxpr(capture))


def _scans_of_a_gradient(names: Names) -> Truth:
    import jax

    primitives = jaxlens.receipt(jax.grad(names["wander"]), names["x"], names["rates"]).primitives
    return Truth(primitives["scan"])


def _additions_of_a_tree(names: Names) -> Truth:
    capture = jaxlens.capture(names["total"], names["x"])
    return Truth(jaxlens.receipt(capture).primitives["add"], jaxlens.jaxpr(capture))


def _tree_of_differences(names: Names) -> Truth:
    tree, loop = np.asarray(names["tree"](names["x"])), np.asarray(names["loop"](names["x"]))
    return Truth("the same" if np.allclose(tree, loop) else "different numbers")


def _maxima_of_a_running_maximum(names: Names) -> Truth:
    capture = jaxlens.capture(names["highest"], names["x"])
    counts = Counter(node.opcode for node in capture.jaxpr.module.nodes())
    return Truth(counts["max"])


_STEPS = """
def root(a):
    x = a
    for _ in range(5):
        x = 0.5 * (x + a / x)
    return x

a = jnp.float32(2)
"""

_FORI = """
def root(a):
    return lax.fori_loop(0, 5, lambda i, x: 0.5 * (x + a / x), a)

a = jnp.float32(2)
"""

_WHILE = """
def root(a):
    def too_far(x):
        return abs(x * x - a) > 1e-5 * a

    def step(x):
        return 0.5 * (x + a / x)

    return lax.while_loop(too_far, step, a)

a = jnp.float32(2)
"""

_BALANCES = """
def balances(start, deposits):
    def month(balance, deposit):
        balance = balance * 1.01 + deposit
        return balance, balance

    return lax.scan(month, start, deposits)
"""

_WANDER = """
def wander(x, rates):
    def step(x, rate):
        return jnp.sin(x) * rate, None

    return lax.scan(step, x, rates)[0]

x, rates = jnp.float32(1), jnp.ones(1000)
"""

_TREE = """
def total(x):
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]

x = jnp.ones(1024)
"""

_DIFFERENCES = """
def loop(x):
    results = [x[0]]
    for number in x[1:]:
        results.append(results[-1] - number)
    return jnp.stack(results)

def tree(x):
    return lax.associative_scan(jnp.subtract, x)

x = jnp.arange(1.0, 9.0)
"""

_HIGHEST = """
def highest(x):
    return lax.associative_scan(jnp.maximum, x)

x = jnp.ones(1024)
"""

PREDICTIONS = (
    Prediction(
        "18.a",
        "How many equations has the jaxpr of `root`?",
        _STEPS,
        _equations_of_five_steps,
        "A step is a division, an addition and a multiplication, and Python took five steps.",
    ),
    Prediction(
        "18.b",
        "Which primitive is the loop in the jaxpr?",
        _FORI,
        _word_for_the_loop,
        "Both ends are numbers, so the length is known, and a loop of known length is a scan. In "
        "lesson 10 the end was data; there it is a while.",
        choices=("for", "while", "scan"),
    ),
    Prediction(
        "18.c",
        "How many more equations has `balances` for 600 deposits than for 12?",
        _BALANCES,
        _equations_that_time_adds,
        "The length stands in the scan equation as a number; the body stands there once.",
    ),
    Prediction(
        "18.d",
        "What does `jax.grad(root)(a)` give?",
        _WHILE,
        _gradient_of_while,
        "Going back needs each step's value, and nobody can say how many steps there will be.",
        choices=("a number", "an error"),
    ),
    Prediction(
        "18.e",
        "How many `scan` equations has the jaxpr of `jax.grad(wander)`?",
        _WANDER,
        _scans_of_a_gradient,
        "One forwards, which keeps what each step needs, and one back that uses it.",
    ),
    Prediction(
        "19.a",
        "How many `add` equations does `total` have for 1,024 numbers?",
        _TREE,
        _additions_of_a_tree,
        "Each round halves the array: 1,024 is 2 to the power of 10.",
    ),
    Prediction(
        "19.b",
        "`loop(x)` and `tree(x)` are...",
        _DIFFERENCES,
        _tree_of_differences,
        "(a - b) - (c - d) is not ((a - b) - c) - d, and JAX does not check your operator.",
        choices=("the same", "different numbers"),
    ),
    Prediction(
        "19.c",
        "How many `max` equations does `highest` have for 1,024 numbers?",
        _HIGHEST,
        _maxima_of_a_running_maximum,
        "Ten rounds to the maximum of all, and ten back to give every element what is to its left.",
        tolerance=0.1,
    ),
)
