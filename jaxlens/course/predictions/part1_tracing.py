"""Predictions of lessons 1 to 8: tracing, and what it records."""

import dis
from ast import literal_eval
from contextlib import redirect_stdout
from io import StringIO
from itertools import count

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth

_SIZES = count(211)  # JAX remembers a single operation by its shapes: these are new every time


def _equations(names: Names) -> Truth:
    receipt = jaxlens.receipt(names["f"], *names["args"])
    return Truth(receipt.equations, jaxlens.jaxpr(names["f"], *names["args"]), "equations")


def _stablehlo_operations(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    operations = [n for n in capture.stablehlo.module.nodes() if "return" not in n.opcode]
    return Truth(len(operations), jaxlens.hlo(capture, stage="stablehlo"), "operations")


def _kernels(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    return Truth(len(capture.kernels), jaxlens.hlo(capture, stage="optimized"))


def _programs_without_jit(names: Names) -> Truth:
    import jax.numpy as jnp

    n = next(_SIZES)
    w, b, x = jnp.ones((3, n)), jnp.ones(n), jnp.ones((4, 3))
    with jaxlens.recompiles() as log:
        names["predict"](w, b, x)
    return Truth(log.compiles + log.operations, log, "programs")


def _printed(names: Names) -> str:
    with redirect_stdout(StringIO()) as out:
        names["calls"]()
    return out.getvalue()


def _what_is_printed(names: Names) -> Truth:
    text = _printed(names)
    shown = "a tracer" if "Tracer" in text else "the numbers" if "1." in text else "nothing"
    return Truth(shown)


def _times_printed(names: Names) -> Truth:
    return Truth(len(_printed(names).splitlines()))


def _length_of_log(names: Names) -> Truth:
    names["calls"]()
    return Truth(len(names["log"]))


def _distinct_results(names: Names) -> Truth:
    return Truth(len(set(names["calls"]())))


def _does_it_trace(names: Names) -> Truth:
    try:
        capture = jaxlens.capture(names["f"], *names["args"])
        view = jaxlens.tape(capture)
        return Truth("yes" if capture.jaxpr else "no", view)
    except Exception as error:
        return Truth("no", jaxlens.explain(error, remedies=False))


def _is_bytecode_longer(names: Names) -> Truth:
    short, long = (len(list(dis.get_instructions(names[n]))) for n in ("three", "twelve"))
    return Truth("longer" if long > short else "as long")


def _first_primitive(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    return Truth(next(capture.jaxpr.module.nodes()).opcode, jaxlens.jaxpr(capture))


def _axis_of_the_second(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    node = next(capture.jaxpr.module.nodes())
    (_, (axis,)), _ = literal_eval(node.attrs["dimension_numbers"])
    return Truth(axis, jaxlens.jaxpr(capture))


def _type_of_the_result(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    return Truth(str(list(capture.jaxpr.module.nodes())[-1].type), jaxlens.jaxpr(capture))


def _products(names: Names) -> Truth:
    receipt = jaxlens.receipt(names["f"], *names["args"])
    return Truth(receipt.primitives["mul"], jaxlens.jaxpr(receipt.capture))


def _inputs(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    return Truth(len(capture.program.inputs), jaxlens.jaxpr(capture))


def _first_input(names: Names) -> Truth:
    capture = jaxlens.capture(names["f"], *names["args"])
    return Truth(capture.program.inputs[0].name.split("'")[1], jaxlens.jaxpr(capture))


def _leaves(names: Names) -> Truth:
    import jax

    view = jaxlens.jaxpr(names["f"], *names["args"])
    return Truth(len(jax.tree.leaves(names["args"][0])), view)


def _compiles(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["calls"]()
    return Truth(log.compiles, log)


PREDICTIONS = (
    Prediction(
        "1.a",
        "How many equations does JAX record for `f`?",
        """
def f(x):
    return x * 2 + 1

args = (jnp.arange(5.0),)
""",
        _equations,
        "One for each operation on the array: `mul`, then `add`.",
    ),
    Prediction(
        "1.b",
        "Into how many kernels (pieces of machine code that are started one by one) does XLA "
        "compile `f`?",
        """
def f(x):
    return x * 2 + 1

args = (jnp.arange(5.0),)
""",
        _kernels,
        "One loop does it all: it loads a number, multiplies, adds, and stores the result.",
    ),
    Prediction(
        "1.c",
        "How many programs are compiled for the first call of `predict`, without `jit`?",
        """
def predict(w, b, x):
    return jax.nn.relu(x @ w + b)
""",
        _programs_without_jit,
        "One for the product, one for the sum, and one for `relu`.",
    ),
    Prediction(
        "1.d",
        "How many equations does the line become, those inside of others included?",
        """
def f(w, b, x):
    return jax.nn.relu(x @ w + b)

args = (jnp.ones((8, 3)), jnp.zeros(3), jnp.ones((4, 8)))
""",
        _equations,
        "The product, a broadcast of `b`, the sum, and `relu`: a call with a derivative rule of "
        "its own, around a jitted function, around a `max`.",
    ),
    Prediction(
        "2.a",
        "In StableHLO both operands of an operation have the same shape, and every constant and "
        "every broadcast is an operation too. How many operations do the two equations of `f` "
        "become?",
        """
def f(x):
    return x * 2 + 1

args = (jnp.arange(5.0),)
""",
        _stablehlo_operations,
        "Each number is a `constant` and a `broadcast_in_dim` to five elements; with `multiply` "
        "and `add` that makes six.",
    ),
    Prediction(
        "3.a",
        "What does `print(x)` show when the jitted `f` is called?",
        """
@jax.jit
def f(x):
    print(x)
    return x * 2 + 1

def calls():
    f(jnp.arange(5.0))
""",
        _what_is_printed,
        "While JAX traces, `x` is an object that knows its shape and dtype and holds no numbers.",
        choices=("the numbers", "a tracer", "nothing"),
    ),
    Prediction(
        "3.b",
        "How many lines do these three calls print?",
        """
@jax.jit
def f(x):
    print("f is running")
    return x * 2 + 1

def calls():
    f(jnp.arange(5.0)), f(jnp.ones(5)), f(jnp.zeros(5))
""",
        _times_printed,
        "Python runs `f` once, to trace it; all three calls run the program that was recorded.",
    ),
    Prediction(
        "3.c",
        "The same sum is written twice. How many equations does JAX record?",
        """
def f(x):
    return (x + 1) * (x + 1)

args = (jnp.arange(5.0),)
""",
        _equations,
        "A tracer records what it meets: two `add`, one `mul`. Finding equal ones is XLA's work.",
    ),
    Prediction(
        "4.a",
        "What is the primitive in the jaxpr of `f`?",
        """
def f(x):
    return x**2

args = (jnp.ones(4),)
""",
        _first_primitive,
        "Raising to a whole power is a primitive of its own. `x * x` would be a `mul`: tracing "
        "records the operation that you asked for, not what it amounts to.",
        choices=("mul", "pow", "integer_pow"),
    ),
    Prediction(
        "4.b",
        "How many equations does the jaxpr of `f` have?",
        """
def f(x):
    unused = jnp.cos(x)
    y = jnp.sin(x)
    return y * y

args = (jnp.ones(4),)
""",
        _equations,
        "The cosine is recorded although nothing uses it; its result is called `_`. The sine is "
        "one equation, and `y * y` reads its result twice.",
    ),
    Prediction(
        "4.c",
        "`dimension_numbers` names the axes that are summed over: one of `a`, one of `b`. Which "
        "axis of `b` is it here?",
        """
def f(a, b):
    return jnp.einsum("ij,kj->ik", a, b)

args = (jnp.ones((2, 3)), jnp.ones((4, 3)))
""",
        _axis_of_the_second,
        "The letter `j` is summed over. It names axis 1 in both: `(([1], [1]), ([], []))`.",
    ),
    Prediction(
        "5.a",
        "How many items does `log` hold after the three calls?",
        """
log = []

@jax.jit
def f(x):
    log.append(x)
    return x * 2

def calls():
    f(1.0), f(2.0), f(3.0)
""",
        _length_of_log,
        "`append` ran while JAX traced, once. It is no operation on an array, so it is in no "
        "program.",
    ),
    Prediction(
        "5.b",
        "How many different numbers do the three calls return?",
        """
@jax.jit
def f(x):
    return x + np.random.uniform()

def calls():
    return float(f(1.0)), float(f(1.0)), float(f(1.0))
""",
        _distinct_results,
        "NumPy drew one number while JAX traced, and it became a constant of the program.",
    ),
    Prediction(
        "5.c",
        "Can JAX trace this `if`?",
        """
def f(x):
    if x.shape[0] > 3:
        return x.sum()
    return x

args = (jnp.arange(5.0),)
""",
        _does_it_trace,
        "A shape is made of Python numbers, known while JAX traces, so Python can decide.",
        choices=("yes", "no"),
    ),
    Prediction(
        "5.d",
        "How many equations does this loop become?",
        """
def f(w, x):
    for i in range(50):
        x = jnp.sin(x @ w)
    return x

args = (jnp.ones((4, 4)), jnp.ones(4))
""",
        _equations,
        "Two for each iteration: the loop is Python's, and its body was recorded 50 times.",
    ),
    Prediction(
        "6.a",
        "The two functions differ in one number. Is the bytecode of `twelve` longer?",
        """
def three(x):
    for i in range(3):
        x = x + 1
    return x

def twelve(x):
    for i in range(12):
        x = x + 1
    return x
""",
        _is_bytecode_longer,
        "The bytecode says that something is repeated; how often is a constant in it.",
        choices=("longer", "as long"),
    ),
    Prediction(
        "6.b",
        "How many equations does `f` become?",
        """
def f(x):
    for i in range(4):
        y = i * 2
        x = x + y
    return x

args = (1.0,)
""",
        _equations,
        "`i * 2` is arithmetic on Python numbers, done while JAX traces. Only the sums meet a "
        "tracer.",
    ),
    Prediction(
        "6.c",
        "With `np.sin` in place of `jnp.sin`, can JAX trace `f`?",
        """
def f(x):
    return np.sin(x) + 1

args = (jnp.arange(3.0),)
""",
        _does_it_trace,
        "NumPy wants numbers in memory, and a tracer has none.",
        choices=("yes", "no"),
    ),
    Prediction(
        "7.a",
        "`x` is a `bf16[4]`. What is the type of the result?",
        """
def f(x):
    return x * 2.0

args = (jnp.ones(4, jnp.bfloat16),)
""",
        _type_of_the_result,
        "Python's `2.0` is weakly typed: it takes the type of the array that it meets.",
        choices=("bf16[4]", "f32[4]"),
    ),
    Prediction(
        "7.b",
        "The loop doubles 1 until it is 100 or more: seven times. How many `mul` are in the jaxpr?",
        """
def f(x):
    return lax.while_loop(lambda x: x < 100, lambda x: x * 2, x)

args = (1.0,)
""",
        _products,
        "One, in the body of the loop. How often it runs depends on a number that tracing does "
        "not have.",
    ),
    Prediction(
        "8.a",
        "How many inputs does the jaxpr of `f(params, x)` have?",
        """
def f(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])

args = ({"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}, jnp.ones((5, 3)))
""",
        _inputs,
        "The two arrays of the dictionary, and `x`: a jaxpr knows only arrays.",
    ),
    Prediction(
        "8.b",
        "Which array comes first among the inputs?",
        """
def f(params, x):
    for w in params["layers"]:
        x = jnp.tanh(x @ w)
    return x @ params["head"]

params = {"layers": [jnp.ones((3, 3)), jnp.ones((3, 3))], "head": jnp.ones((3, 1))}
args = (params, jnp.ones((5, 3)))
""",
        _first_input,
        "Dictionaries are taken apart in the order of their sorted keys, whichever way they were "
        "written: `head`, then `layers`, then the next argument.",
        choices=("layers", "head", "x"),
    ),
    Prediction(
        "8.c",
        "How many leaves does `settings` have?",
        """
def f(settings, x):
    return x * settings["rate"] + sum(settings["sizes"])

settings = {"rate": 0.1, "decay": None, "sizes": (64, 32)}
args = (settings, jnp.ones(3))
""",
        _leaves,
        "0.1, 64 and 32. Numbers are leaves; None is a container with nothing in it.",
    ),
    Prediction(
        "8.d",
        "How many times is `total` compiled?",
        """
total = jax.jit(lambda pair: pair[0] + pair[1])

def calls():
    total([1.0, 2.0])
    total((1.0, 2.0))
""",
        _compiles,
        "The leaves are the same, the structure is not: a list is not a tuple.",
    ),
    Prediction(
        "8.e",
        "How often is `f` compiled?",
        """
f = jax.jit(lambda p: p["w"] * 2)
w, b = np.ones(3, np.float32), np.zeros(3, np.float32)

def calls():
    f({"w": w, "b": b})
    f({"b": b, "w": w})
    f({"w": w})
""",
        _compiles,
        "The order in a dict does not count. Its keys do, even one that `f` never reads.",
    ),
)
