"""Predictions of lessons 26 to 30: programs ahead of time, waiting, devices, NaN, a step."""

import math
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _compiles_of_calls(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["calls"]()
    return Truth(log.compiles, log)


def _call_of_other_shape(names: Names) -> Truth:
    try:
        names["program"](names["np"].ones(6, "float32"))
    except TypeError:
        return Truth("TypeError")
    return Truth("a new program")


def _compile_of_large(names: Names) -> Truth:
    try:
        answer = jaxlens.memory(names["wave"], names["large"])
        fits = answer.arguments
    except MemoryError:
        fits = None
    return Truth("a program" if fits else "out of memory", answer if fits else None)


def _ready_after_call(names: Names) -> Truth:
    f, x = names["f"], names["x"]
    f(x).block_until_ready()
    y = f(x)
    return Truth("yes" if y.is_ready() else "no")


def _line_that_waits(names: Names) -> Truth:
    f, x = names["f"], names["x"]
    (f(x) + 1).sum().block_until_ready()  # all of it compiled
    y = f(x)
    if y.is_ready():
        return Truth("line 1")
    z = (y + 1).sum()
    return Truth("line 2" if z.is_ready() else "line 3")


def _idle_turns(names: Names) -> Truth:
    step, losses, idle = names["step"], list[object](), 0

    def watched(w: object) -> object:
        nonlocal idle
        idle += bool(losses) and losses[-1].is_ready()  # type: ignore[attr-defined]
        w, loss = step(w)
        losses.append(loss)
        return w, loss

    with redirect_stdout(StringIO()):
        names["train"](watched, names["w"])
    return Truth(idle)


# A process whose CPU is one device cannot make eight of it after JAX has started.
_ON_EIGHT = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
from jaxlens.course.predict import predictions
entry = predictions()[{id!r}]
print(entry.truth(entry.names()).value)
"""


def _on_eight_devices(id: str) -> str:
    """Returns the truth of a prediction, computed in a process with eight devices; "" here."""
    import jax

    if jax.device_count() >= 8:
        return ""
    command = [sys.executable, "-c", _ON_EIGHT.format(id=id)]
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def _bytes_forward(names: Names) -> Truth:
    value = _on_eight_devices("28.a")
    if value:
        return Truth(int(value), unit="B")
    answer = jaxlens.sharding(names["layer"], names["X"], names["W"])
    return Truth(sum(c.bytes or 0 for c in answer.collectives), answer, "B")


def _bytes_of_gradient(names: Names) -> Truth:
    value = _on_eight_devices("28.c")
    if value:
        return Truth(int(value), unit="B")
    gradient = names["jax"].grad(names["loss"])
    answer = jaxlens.sharding(gradient, names["W"], names["X"])
    # Not as evidence: XLA numbers its values in another way in each version.
    return Truth(sum(c.bytes or 0 for c in answer.collectives), unit="B")


def _collective_of_cut_columns(names: Names) -> Truth:
    value = _on_eight_devices("28.b")
    if value:
        return Truth(value)
    answer = jaxlens.sharding(names["layer"], names["X"], names["W"])
    return Truth(answer.collectives[0].opcode if answer.collectives else "nothing", answer)


def _gradient_at_zero(names: Names) -> Truth:
    return _in_words(names, 0.0)


def _gradient_at_minus_one(names: Names) -> Truth:
    return _in_words(names, -1.0)


def _in_words(names: Names, x: float) -> Truth:
    gradient = names["jax"].grad(names["safe_log"])
    value = float(gradient(x))
    word = "nan" if math.isnan(value) else "inf" if math.isinf(value) else f"{abs(value):g}"
    return Truth(word, jaxlens.jaxpr(gradient, x))


def _under_debug_nans(names: Names) -> Truth:
    jax, jnp = names["jax"], names["jnp"]
    try:
        with jax.debug_nans(True), redirect_stdout(StringIO()):
            names["direction"](jnp.zeros(3))
    except FloatingPointError:
        return Truth("FloatingPointError")
    return Truth("zeros")


def _compiles_of_train(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["train"](names["ws"], names["data"], (0.1, 0.05, 0.01))
    return Truth(log.compiles, log)


def _products_of_step(names: Names) -> Truth:
    receipt = jaxlens.receipt(names["step"], names["ws"])
    return Truth(receipt.primitives["dot_general"])


def _fewest_equations(names: Names) -> Truth:
    unrolled = jaxlens.receipt(names["step"], names["ws"]).equations
    scanned = jaxlens.receipt(names["scanned_step"], names["ws"]).equations
    return Truth("the loop" if 3 * scanned < unrolled else "the compiles")


_SLOW = """
f = jax.jit(lambda x: x @ x @ x)
x = jnp.ones((1500, 1500))
"""

_ON_DEVICES = """
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("d",))  # here 8 devices
"""

_LAYER = """
X = jax.device_put(jnp.ones((64, 32)), NamedSharding(mesh, P({x})))
W = jax.device_put(jnp.ones((32, 16)), NamedSharding(mesh, P()))  # whole on each
"""

_STEP = """
def make_step(data, rate):
    @jax.jit
    def step(ws):
        def loss(ws):
            h = data
            for w in ws:
                h = jnp.tanh(h @ w)
            return (h**2).mean()

        return ws - rate * jax.grad(loss)(ws)

    return step


data = jnp.ones((40, 8))
ws = jnp.full((16, 8, 8), 0.1, jnp.float32)
"""

PREDICTIONS = (
    Prediction(
        "26.a",
        "`program` was compiled before `calls` runs. How often is `f` compiled in `calls`?",
        """
f = jax.jit(lambda x: jnp.sin(x) * 2)
x = np.ones(8, np.float32)
program = f.lower(x).compile()

def calls():
    program(x)
    program(x + 1)
    f(x)
""",
        _compiles_of_calls,
        "The program is there. The last call goes through `f`, whose caches hold it too.",
    ),
    Prediction(
        "26.b",
        "The program is for 8 numbers. What does a call with 6 give?",
        """
f = jax.jit(lambda x: jnp.sin(x) * 2)
program = f.lower(np.ones(8, np.float32)).compile()

# program(np.ones(6, np.float32))
""",
        _call_of_other_shape,
        "A program made ahead of time never compiles again. It refuses what it was not made for.",
        choices=("a new program", "TypeError", "6 numbers and 2 zeros"),
    ),
    Prediction(
        "26.c",
        "One billion numbers are 4 GB. What does compiling give on a machine with 2 GB?",
        """
def wave(x):
    return jnp.sin(x)

large = jax.ShapeDtypeStruct((1_000_000_000,), jnp.float32)
""",
        _compile_of_large,
        "A compile looks at shapes and dtypes. No array of that size was made.",
        choices=("a program", "out of memory"),
    ),
    Prediction(
        "27.a",
        "`f` is compiled already. Right after `y = f(x)`, is the result there?",
        _SLOW,
        _ready_after_call,
        "The call put the work into the device's queue and returned. Python goes on meanwhile.",
        choices=("yes", "no"),
    ),
    Prediction(
        "27.b",
        "All of it is compiled already. Which is the first line that waits for the device?",
        _SLOW
        + """
def lines():
    y = f(x)             # line 1
    z = (y + 1).sum()    # line 2
    print(float(z))      # line 3
""",
        _line_that_waits,
        "Lines 1 and 2 ask for work. Only `float` needs a number in Python, so it has to wait.",
        choices=("line 1", "line 2", "line 3"),
    ),
    Prediction(
        "27.c",
        "Not counting the first of ten turns: how many begin while the device has nothing to do?",
        """
step = jax.jit(lambda w: (w @ w * 0.001, w.mean()))
w = jnp.ones((1000, 1000))

def train(step, w):
    for _ in range(10):
        w, loss = step(w)
        print(float(loss))
""",
        _idle_turns,
        "Printing the loss waits for it, so each of the other nine turns begins on an idle device.",
    ),
    Prediction(
        "28.a",
        "X is cut by rows, W is whole on each device. How many bytes does a device put into "
        "messages?",
        _ON_DEVICES
        + _LAYER.format(x='"d", None')
        + """
def layer(X, W):
    return jnp.tanh(X @ W)
""",
        _bytes_forward,
        "A row of the result needs one row of X and all of W, and its device has both.",
    ),
    Prediction(
        "28.b",
        "Now X is cut by columns: each device has 4 of its 32, and the product adds up all 32. "
        "What travels?",
        _ON_DEVICES
        + _LAYER.format(x='None, "d"')
        + """
def layer(X, W):
    return jnp.tanh(X @ W)
""",
        _collective_of_cut_columns,
        "Each device has a part of every sum. An all-reduce adds up the parts before the tanh.",
        choices=("nothing", "all-gather", "all-reduce"),
    ),
    Prediction(
        "28.c",
        "X is cut by rows again, and all devices need the gradient of the loss with respect to W. "
        "How many bytes does a device put into messages?",
        _ON_DEVICES
        + _LAYER.format(x='"d", None')
        + """
def loss(W, X):
    return jnp.tanh(X @ W).sum()

gradient = jax.grad(loss)
""",
        _bytes_of_gradient,
        "Each device has a gradient of W's shape from its own rows: 32 x 16 numbers of 4 bytes.",
    ),
    Prediction(
        "29.a",
        "Its value at 0 is 0. What is its gradient at 0?",
        """
def safe_log(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)
""",
        _gradient_at_zero,
        "The branch that was not chosen is differentiated too. Its derivative is 0 divided by x, "
        "and 0/0 is NaN.",
        choices=("0", "inf", "nan"),
    ),
    Prediction(
        "29.b",
        "At -1 the logarithm itself is NaN, and `where` picks the 0. What is the gradient there?",
        """
def safe_log(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)
""",
        _gradient_at_minus_one,
        "The derivative never uses the value of the logarithm. It is 0/x, and 0/-1 is a number.",
        choices=("0", "inf", "nan"),
    ),
    Prediction(
        "29.c",
        "What does `direction(jnp.zeros(3))` give under `jax.debug_nans(True)`?",
        """
def direction(x):
    length = jnp.sqrt(jnp.sum(x * x))
    return jnp.where(length > 0, x / length, 0.0)
""",
        _under_debug_nans,
        "The division 0/0 was computed, and debug_nans looks at the result of every operation.",
        choices=("zeros", "FloatingPointError"),
    ),
    Prediction(
        "30.a",
        "How often does `train` compile, with three rates?",
        _STEP
        + """
def train(ws, data, rates):
    for rate in rates:
        step = make_step(data, rate)
        for _ in range(2):
            ws = step(ws)
    return ws
""",
        _compiles_of_train,
        "Each rate makes a new function, and a new function has an empty cache.",
    ),
    Prediction(
        "30.b",
        "The network has 16 layers. How many matrix products are in one step's program? (Within "
        "five percent counts.)",
        _STEP
        + """
step = make_step(data, 0.1)
""",
        _products_of_step,
        "16 on the way forward, 16 for the weights, and 15 for the layers below: the data need no "
        "gradient.",
        tolerance=0.05,
    ),
    Prediction(
        "30.c",
        "The step is compiled three times, with 16 layers written out. If you could fix only one "
        "of the two faults, which would leave XLA fewer equations to compile in all?",
        _STEP
        + """
def make_scanned_step(data, rate):
    @jax.jit
    def step(ws):
        def loss(ws):
            h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), data, ws)
            return (h**2).mean()

        return ws - rate * jax.grad(loss)(ws)

    return step


step = make_step(data, 0.1)  # once, if the compiles are fixed
scanned_step = make_scanned_step(data, 0.1)  # three times, if the loop is
""",
        _fewest_equations,
        "Three small programs are less work than one with every layer written out.",
        choices=("the compiles", "the loop"),
    ),
)
