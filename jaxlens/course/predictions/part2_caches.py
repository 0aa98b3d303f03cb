"""Predictions of lessons 9 to 11: what compiles, and when; what is static; what is donated."""

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _compiles_of_calls(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["calls"]()
    return Truth(log.compiles, log)


def _second_call(names: Names) -> Truth:
    names["f"](names["first"])
    with jaxlens.recompiles() as log:
        names["f"](names["second"])
    return Truth("compiled" if log.compiles else "served", log)


def _cosines(names: Names) -> Truth:
    call = names["net"], names["x"], False
    return Truth(jaxlens.receipt(*call).primitives.get("cos", 0), jaxlens.jaxpr(*call))


def _second_result(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["f"](1.0, names["options"])
    return Truth(float(names["second"]), log)


def _what_comes(names: Names) -> Truth:
    try:
        names["call"]()
    except (TypeError, ValueError):
        return Truth("an error")
    return Truth("a result")


def _arrays_of_a_step(names: Names) -> Truth:
    w, g = names["w"], names["g"]
    memory = jaxlens.memory(names["step"], w, g)
    return Truth(round(memory.reserved / w.nbytes), memory)


def _donation_is_used(names: Names) -> Truth:
    memory = jaxlens.memory(names["step"], names["w"], names["g"])
    used = any(entry.donated and entry.result for entry in memory.donations)
    return Truth("yes" if used else "no", memory)


def _after_the_step(names: Names) -> Truth:
    import numpy as np

    try:
        return Truth("the old weights" if np.all(names["w"] == 1) else "the new weights")
    except RuntimeError:
        return Truth("an error")


PREDICTIONS = (
    Prediction(
        "9.a",
        "How often is `f` compiled?",
        """
f = jax.jit(lambda x: x + 1)

def calls():
    f(np.ones(3)), f(np.ones(3)), f(np.ones(4))
    f(1.0), f(2.0), f(1)
""",
        _compiles_of_calls,
        "Values do not count: shapes, dtypes and weak types do. `1.0` and `2.0` share a program.",
    ),
    Prediction(
        "9.b",
        "`f(first)` was compiled. Is `f(second)` served by that program, or compiled again?",
        """
f = jax.jit(lambda x: x * 3)
first = jnp.float32(2)
second = 2.0
""",
        _second_call,
        "Both are f32[], but a Python number is weak: it takes the dtype of what it meets.",
        choices=("served", "compiled"),
    ),
    Prediction(
        "9.c",
        "How often does JAX compile in this loop?",
        """
x = np.ones(3, np.float32)

def calls():
    for rate in (0.1, 0.2, 0.3, 0.2, 0.1):
        f = jax.jit(lambda x: x * rate)
        f(x)
""",
        _compiles_of_calls,
        "Every iteration makes a new function, and a new function has no programs yet.",
    ),
    Prediction(
        "9.d",
        "`f(first)` was compiled. Is `f(second)` served by that program, or compiled again?",
        """
f = jax.jit(lambda x: x * 3)
first = jnp.arange(3.0)
second = jax.device_put(first, jax.devices()[0])  # where it is already
""",
        _second_call,
        "`device_put` commits the array to its device, and the key says whether it is committed.",
        choices=("served", "compiled"),
    ),
    Prediction(
        "10.a",
        "How often is `power` compiled?",
        """
from functools import partial

@partial(jax.jit, static_argnames="n")
def power(x, n):
    y = jnp.ones_like(x)
    for _ in range(n):
        y = y * x
    return y

def calls():
    for n in (2, 3, 4, 2, 3, 4):
        power(np.ones(3, np.float32), n)
""",
        _compiles_of_calls,
        "A static argument is part of the key by its value: one program for each of 2, 3 and 4.",
    ),
    Prediction(
        "10.b",
        "`net` is called with train=False. How many cosines are in the program that runs?",
        """
@jax.jit
def net(x, train):
    return jnp.where(train, jnp.cos(x), x)

x = np.ones(3, np.float32)
""",
        _cosines,
        "`train` is data: the program does not know it, so it computes both sides and selects.",
    ),
    Prediction(
        "10.c",
        "What does this call give?",
        """
from functools import partial

@partial(jax.jit, static_argnames="shape")
def zeros(x, shape):
    return x + jnp.zeros(shape)

def call():
    return zeros(1.0, [2, 3])
""",
        _what_comes,
        "A static value is looked up in a table, and Python can hash a tuple, not a list.",
        choices=("a result", "an error"),
    ),
    Prediction(
        "10.d",
        "Which number is `second`?",
        """
from functools import partial

class Options:
    def __init__(self, factor):
        self.factor = factor

@partial(jax.jit, static_argnames="options")
def f(x, options):
    return x * options.factor

options = Options(3)
first = f(1.0, options)
options.factor = 4
second = f(1.0, options)
""",
        _second_result,
        "It is the same object, so the key is the same, and the program for 3 is served.",
    ),
    Prediction(
        "10.e",
        "Six calls of two functions: how many of them compile?",
        """
double = jax.jit(lambda x, fast: x + x if fast else x * 2, static_argnums=1)
treble = jax.jit(lambda x, fast: x * 3, static_argnums=1)
three, four = np.ones(3, np.float32), np.ones(4, np.float32)

def calls():
    double(three, True)
    double(three, False)
    double(four, True)
    double(three + 1, True)
    treble(three, True)
    treble(three, False)
""",
        _compiles_of_calls,
        "Function, flag and shape are in the key; the numbers of the fourth call are not.",
    ),
    Prediction(
        "11.a",
        "How many arrays of this size does a call of `step` need at once, results included?",
        """
@jax.jit
def step(w, g):
    return w - 0.1 * g

w, g = jnp.ones((256, 256)), jnp.ones((256, 256))
""",
        _arrays_of_a_step,
        "Both arguments stay, and the result is a third array; `0.1 * g` is never stored.",
    ),
    Prediction(
        "11.b",
        "What does `print(w)` show after this step?",
        """
from functools import partial

@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w - 0.1 * g

w, g = jnp.ones(4), jnp.ones(4)
step(w, g)
""",
        _after_the_step,
        "Its memory belongs to the result now, and JAX does not let you read it by the old name.",
        choices=("the old weights", "the new weights", "an error"),
    ),
    Prediction(
        "11.c",
        "Now `w` is a NumPy array. What does `print(w)` show?",
        """
from functools import partial

@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w - 0.1 * g

w, g = np.ones(4, np.float32), np.ones(4, np.float32)
step(w, g)
""",
        _after_the_step,
        "JAX gave away a copy of its own: it never writes to the memory of a NumPy array.",
        choices=("the old weights", "the new weights", "an error"),
    ),
    Prediction(
        "11.d",
        "Is the memory of `w` used for the result?",
        """
from functools import partial

@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return (w - 0.1 * g).astype(jnp.bfloat16)

w, g = jnp.ones((256, 256)), jnp.ones((256, 256))
""",
        _donation_is_used,
        "Memory is reused for a result of as many bytes, and this one has half as many.",
        choices=("yes", "no"),
    ),
    Prediction(
        "11.e",
        "A product of matrices, with `w` donated: how many arrays of this size does it need?",
        """
from functools import partial

@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w @ g

w, g = jnp.ones((256, 256)), jnp.ones((256, 256))
""",
        _arrays_of_a_step,
        "Each element of the result reads a row of `w`, so it cannot be written over `w` at once.",
    ),
)
