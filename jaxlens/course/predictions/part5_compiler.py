"""Predictions of lessons 20 to 23: HLO, passes, fusion and machine code."""

import re

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
    return Truth(capture.links.fate(root.id).name, jaxlens.hlo(capture, stage="hlo"))


def _sines_that_are_left(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    left = sum(node.opcode == "sine" for node in capture.optimized.module.nodes())
    return Truth(left, jaxlens.hlo(capture, stage="optimized"))


def _sine_times_zero(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], names["x"])
    left = any(node.opcode == "sine" for node in capture.optimized.module.nodes())
    return Truth("yes" if left else "no", jaxlens.hlo(capture, stage="optimized"))


def _runs(capture: jaxlens.Capture) -> Truth:
    receipt = jaxlens.receipt(capture)
    return Truth(receipt.kernels + receipt.library_calls, jaxlens.fusion(capture))


def _kernels_of_wave(names: Names) -> Truth:
    return _runs(jaxlens.capture(names["wave"], names["x"]))


def _kernels_of_share(names: Names) -> Truth:
    return _runs(jaxlens.capture(names["share"], names["x"]))


def _kernels_with_a_sine(names: Names) -> Truth:
    fusion = jaxlens.fusion(names["pair"], names["x"])
    return Truth(sum("sine" in one.operations for one in fusion.fusions), fusion)


def _kernels_of_softmax(names: Names) -> Truth:
    return _runs(jaxlens.capture(names["softmax"], names["x"]))


def _at_once(names: Names) -> Truth:
    kernels = jaxlens.capture(names["line"], names["x"]).kernels
    code = "\n".join(kernel.llvm_after for kernel in kernels)
    return Truth("several" if re.search(r"\bf(?:mul|add)\b[a-z ]* <\d+ x float>", code) else "one")


def _joined(names: Names) -> Truth:
    code = jaxlens.capture(names["line"], names["x"]).asm.text
    return Truth("one" if re.search(r"\b(?:vfn?madd|fmadd|fmla)", code) else "two")


def _multiplies_integers(names: Names) -> Truth:
    code = jaxlens.capture(names["odd"], names["x"]).asm.text
    return Truth("yes" if re.search(r"\b(?:v?pmul\w*|imul|mul|mla)\b", code) else "no")


def _sines_at_once(names: Names) -> Truth:
    code = jaxlens.capture(names["sines"], names["x"]).asm.text
    return Truth("one" if re.search(r"\bsinf\b", code) else "several")


PREDICTIONS = (
    Prediction(
        "20.a",
        "How many instructions does the block `ENTRY` of the HLO of `f` have, before optimisation?",
        """
def f(x, w):
    return jnp.maximum(x @ w, 0.0).sum(axis=1)

x, w = jnp.ones((4, 8)), jnp.ones((8, 3))
""",
        _instructions_of_the_entry,
        "Besides the three: two parameters, a 0 and its broadcast, and a 0 where the sum begins.",
    ),
    Prediction(
        "20.b",
        "How many `multiply` instructions does the HLO of `f` have, before optimisation?",
        """
def f(x):
    return x ** 8

x = jnp.arange(5.0)
""",
        _products_of_a_power,
        "Squared, squared, and squared again: 2, 4, 8.",
    ),
    Prediction(
        "20.c",
        "Which HLO op chooses?",
        """
def f(x):
    return jnp.where(x > 0, x, 0.0)

x = jnp.arange(-2.0, 3.0)
""",
        _op_that_chooses,
        "A select takes two arrays that are computed already. `conditional` is for `lax.cond`.",
        choices=("if", "where", "conditional", "select"),
    ),
    Prediction(
        "20.d",
        "How many computations (blocks in braces) does the HLO of `f` have?",
        """
def f(x):
    return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)

x = jnp.arange(5.0)
""",
        _computations_of_a_choice,
        "The entry, one for each case, and one that adds two numbers for the sum.",
    ),
    Prediction(
        "21.a",
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
        "21.b",
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
        "21.c",
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
    Prediction(
        "22.a",
        "How many kernels does `wave` run as?",
        """
def wave(x):
    return jnp.sin(x) * 2 + jnp.cos(x) * x

x = jnp.ones((512, 512))

wave(x)
""",
        _kernels_of_wave,
        "Every element of the result needs the same element of `x` only, so one loop does it all.",
    ),
    Prediction(
        "22.b",
        "How many kernels does `share` run as?",
        """
def share(x):
    return x / x.sum()

x = jnp.arange(5.0)

share(x)
""",
        _kernels_of_share,
        "No element can be divided before all of them were summed.",
    ),
    Prediction(
        "22.c",
        "How many kernels compute a sine?",
        """
def pair(x):
    s = jnp.sin(x)
    return s + 1, s * 2

x = jnp.ones((512, 512))

pair(x)
""",
        _kernels_with_a_sine,
        "Here a kernel has one result. Each of the two computes the sine anew, for that is cheaper "
        "than to write it to memory and read it twice.",
    ),
    Prediction(
        "22.d",
        "How many kernels and library calls together does `softmax` run as?",
        """
def softmax(x):
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

x = jnp.ones((512, 512))

softmax(x)
""",
        _kernels_of_softmax,
        "One makes the exponentials, one their sums, one the reciprocals of the sums, and one "
        "multiplies.",
    ),
    Prediction(
        "23.a",
        "With 4096 numbers: how many does one multiplication of the LLVM IR handle?",
        """
def line(x):
    return x * 0.5 + 1

x = jnp.arange(4096.0)

line(x)
""",
        _at_once,
        "LLVM sees a loop whose turns do not depend on each other, and does several in one turn.",
        choices=("one", "several"),
    ),
    Prediction(
        "23.b",
        "How many machine instructions does it take to multiply and add a group of numbers?",
        """
def line(x):
    return x * 0.5 + 1

x = jnp.arange(4096.0)

line(x)
""",
        _joined,
        "The processor has an instruction that multiplies and adds: a fused multiply-add.",
        choices=("one", "two"),
    ),
    Prediction(
        "23.c",
        "With integers: is there a multiplication among the machine's instructions?",
        """
def odd(x):
    return x * 2 + 1

x = jnp.arange(4096)

odd(x)
""",
        _multiplies_integers,
        "Twice an integer is its bits moved by one place, and then the last bit is free for the 1.",
        choices=("yes", "no"),
    ),
    Prediction(
        "23.d",
        "How many sines does the machine code compute at once?",
        """
def sines(x):
    return jnp.sin(x)

x = jnp.arange(4096.0)

sines(x)
""",
        _sines_at_once,
        "The processor has no instruction for a sine, so a function of a library is called for "
        "each number.",
        choices=("one", "several"),
    ),
)
