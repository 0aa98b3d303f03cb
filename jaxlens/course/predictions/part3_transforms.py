"""Predictions of lessons 12 to 17: derivatives, batches, and rules."""

from collections.abc import Callable
from typing import Any

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _equations_of_jvp(names: Names) -> Truth:
    capture = jaxlens.capture(names["change"], 2.0, 1.0)
    return Truth(jaxlens.receipt(capture).equations, jaxlens.jaxpr(capture))


def _backward_of_five_sines(names: Names) -> Truth:
    answer = jaxlens.ladder(names["gradient"], 2.0)
    return Truth(len(answer.rungs[-1].backward), answer)


def _arrays_kept(names: Names) -> Truth:
    x = names["x"]
    answer = jaxlens.memory(names["gradient"], x)
    return Truth(answer.saved.bytes // x.nbytes, jaxlens.ladder(names["gradient"], x))


def _transposed(names: Names) -> Truth:
    ran: list[Any] = []
    with names["core"].listen(ran.append):
        names["gradient"](1.0)
    found = [e.name for e in ran if e.kind == "rule" and e.detail.get("rule") == "transpose"]
    return Truth(" ".join(found), jaxlens.jaxpr(names["gradient"], 1.0))


def _cheaper_jacobian(names: Names) -> Truth:
    x = names["x"]
    ways = {name: jaxlens.cost(names[name], x) for name in ("columns", "rows")}
    name = min(ways, key=lambda way: ways[way].flops)
    return Truth(name, ways[name])


def _gradient_beside_loss(names: Names) -> Truth:
    w, x = names["w"], names["x"]
    loss = jaxlens.cost(names["loss"], w, x).flops
    answer = jaxlens.cost(names["gradient"], w, x)
    return Truth(f"about {round(answer.flops / loss)}", answer)


def _size_of_hessian(names: Names) -> Truth:
    import jax

    shape = jax.eval_shape(jax.hessian(names["f"]), names["x"])
    return Truth(shape.size * shape.dtype.itemsize / 1e6, unit="MB")


def _gradient_of_round(names: Names) -> Truth:
    return Truth(float(names["gradient"](2.3)), jaxlens.jaxpr(names["gradient"], 2.3))


def _gradient_by_wrong_rule(names: Names) -> Truth:
    return Truth(float(names["gradient"](2.0)), jaxlens.jaxpr(names["gradient"], 2.0))


def _forward_through_vjp(names: Names) -> Truth:
    import jax

    try:
        jax.jvp(names["gently"], (2.0,), (1.0,))
    except TypeError:
        return Truth("an error")
    return Truth("a number")


def _products(names: Names) -> Truth:
    f, args = names["batched"], (names["w"], names["rows"])
    count = jaxlens.receipt(f, *args).primitives["dot_general"]
    return Truth(count, jaxlens.jaxpr(f, *args))


def _cond_left(names: Names) -> Truth:
    f, xs = names["batched"], names["xs"]
    left = jaxlens.receipt(f, xs).primitives.get("cond", 0)
    return Truth("yes" if left else "no", jaxlens.jaxpr(f, xs))


def _which_runs(names: Names) -> Truth:
    xs = names["xs"]
    for name in ("first", "second"):
        try:
            names[name](xs)
        except TypeError:
            continue
        return Truth(name, jaxlens.ladder(names[name], xs))
    raise AssertionError("neither runs")


def _equations(name: str) -> Callable[[Names], Truth]:
    def truth(names: Names) -> Truth:
        f, xs = names[name], names["xs"]
        return Truth(jaxlens.receipt(f, xs).equations, jaxlens.ladder(f, xs))

    return truth


def _shape(names: Names) -> Truth:
    import jax

    f, args = names["gradients"], (names["w"], names["rows"])
    found: Any = jax.eval_shape(f, *args)
    return Truth(str(found.shape), jaxlens.jaxpr(f, *args))


def _temporaries(names: Names) -> Truth:
    answer = jaxlens.memory(names["gradient"], names["x"])
    return Truth(jaxlens.receipt(names["gradient"], names["x"]).temporaries, answer, "B")


def _sines(names: Names) -> Truth:
    f, x = names["gradient"], names["x"]
    return Truth(jaxlens.receipt(f, x).primitives["sin"], jaxlens.jaxpr(f, x))


PREDICTIONS = (
    Prediction(
        "12.a",
        "How many equations does the program of `change` have?",
        """
def f(x):
    return jnp.sin(x) * x

def change(x, t):
    return jax.jvp(f, (x,), (t,))
""",
        _equations_of_jvp,
        "The sine and its rule make 3: a sine, a cosine and a product. The product and its rule "
        "make 4: the product itself, one product for each factor that changes, and their sum.",
    ),
    Prediction(
        "12.b",
        "How many equations does the backward half have?",
        """
def five(x):
    for _ in range(5):
        x = jnp.sin(x)
    return x

gradient = jax.grad(five)
""",
        _backward_of_five_sines,
        "Going back through one sine is one product with its slope. The slopes, five cosines, "
        "were computed on the way forward.",
    ),
    Prediction(
        "13.a",
        "Here `f` has 100 inputs and 3 results. Which way takes fewer flops?",
        """
w1 = np.linspace(-1, 1, 5000, dtype=np.float32).reshape(100, 50)
w2 = np.linspace(-1, 1, 150, dtype=np.float32).reshape(50, 3)
x = np.linspace(0, 1, 100, dtype=np.float32)

def f(x):
    hidden = jnp.sin(jnp.sin(x) @ w1)
    return hidden @ w2

def columns(x):
    units = np.eye(x.size, dtype=np.float32)
    return jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1], out_axes=1)(units)

def rows(x):
    y, pull = jax.vjp(f, x)
    units = np.eye(y.size, dtype=np.float32)
    return jax.vmap(lambda ct: pull(ct)[0])(units)
""",
        _cheaper_jacobian,
        "The Jacobian has 100 columns and 3 rows. A column is a run forward, a row a run backward.",
        choices=("columns", "rows"),
    ),
    Prediction(
        "13.b",
        "`w` holds 10,000 numbers. How many times the flops of the loss does its gradient take?",
        """
def loss(w, x):
    return (jnp.sin(x @ w) ** 2).sum()

gradient = jax.grad(loss)
w, x = jnp.ones((100, 100)), jnp.ones((32, 100))
""",
        _gradient_beside_loss,
        "The loss is one number, so one run backward gives all 10,000 slopes: the product forward, "
        "and one more product backward.",
        choices=("about 2", "about 100", "about 10000"),
    ),
    Prediction(
        "13.c",
        "How large is the Hessian of `f`, in MB (1 MB is a million bytes)?",
        """
def f(x):
    return jnp.sin(x @ x)

x = jax.ShapeDtypeStruct((10_000,), jnp.float32)
""",
        _size_of_hessian,
        "10,000 times 10,000 numbers of 4 bytes. The gradient has 0.04 MB.",
    ),
    Prediction(
        "14.a",
        "How many matrix products (`dot_general`) are in the program of `batched`?",
        """
def score(w, row):
    return jnp.tanh(row @ w).sum()

def batched(w, rows):
    return jnp.stack([score(w, rows[i]) for i in range(len(rows))])

w, rows = jnp.ones((3, 2)), jnp.ones((5, 3))
""",
        _products,
        "Python ran the loop while JAX traced, so each turn left its equations in the program.",
    ),
    Prediction(
        "14.b",
        "And with `vmap`, for 500 rows: how many matrix products?",
        """
def score(w, row):
    return jnp.tanh(row @ w).sum()

batched = jax.vmap(score, in_axes=(None, 0))

w, rows = jnp.ones((3, 2)), jnp.ones((500, 3))
""",
        _products,
        "The one product of `score` became one product of a larger array.",
    ),
    Prediction(
        "14.c",
        "Now each row has a matrix of its own. How many matrix products are in the program?",
        """
def score(w, row):
    return jnp.tanh(row @ w).sum()

batched = jax.vmap(score, in_axes=(0, 0))

w, rows = jnp.ones((5, 3, 2)), jnp.ones((5, 3))
""",
        _products,
        "`dot_general` knows batch axes: `dimension_numbers` names them. It is still one equation.",
    ),
    Prediction(
        "14.d",
        "The sign of each number decides which branch it takes. Is there a `cond` in the program?",
        """
def f(x):
    return lax.cond(x > 0, jnp.sin, jnp.cos, x)

batched = jax.vmap(f)

xs = jnp.arange(-2.0, 2.0)
""",
        _cond_left,
        "A `cond` takes one branch for the whole array. Here the numbers differ, so both branches "
        "are computed for all of them, and `select_n` picks.",
        choices=("yes", "no"),
    ),
    Prediction(
        "15.a",
        "One of the two raises an error. Which one runs?",
        """
def f(x):
    return jnp.sin(x) * x

first = jax.grad(jax.vmap(f))
second = jax.vmap(jax.grad(f))

xs = jnp.arange(3.0)
""",
        _which_runs,
        "`grad` wants one number to differentiate. `vmap(f)` returns three; `f` returns one.",
        choices=("first", "second"),
    ),
    Prediction(
        "15.b",
        "`jax.grad(f)` has 7 equations. How many has `jax.vmap(jax.grad(f))` for 1,000 points?",
        """
def f(x):
    return jnp.sin(x) * x

many = jax.vmap(jax.grad(f))

xs = jnp.linspace(0.0, 1.0, 1000)
""",
        _equations("many"),
        "`vmap` gives each equation one axis more; it adds none here.",
    ),
    Prediction(
        "15.c",
        "What is the shape of the result?",
        """
def loss(w, row):
    return jnp.sin(row @ w).sum()

gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))

w, rows = jnp.ones((4, 2)), jnp.ones((3, 4))
""",
        _shape,
        "`grad(loss)` gives an array like `w` for one row, and `vmap` puts the rows in front.",
        choices=("(4, 2)", "(3, 2)", "(3, 4, 2)"),
    ),
    Prediction(
        "16.a",
        "What is the gradient at 2.3?",
        """
gradient = jax.grad(jnp.round)
""",
        _gradient_of_round,
        "Between two steps, round is flat. JAX has no rule that says otherwise.",
    ),
    Prediction(
        "16.b",
        "For which primitive is a transpose rule used?",
        """
gradient = core.grad(core.numpy.sin)
""",
        _transposed,
        "The jvp rule of sin makes a product, cos(x) times the tangent. That product is what is "
        "linear in the tangent, so it alone is transposed.",
        choices=("sin", "cos", "mul"),
    ),
    Prediction(
        "16.c",
        "The rule is wrong: the slope of x * x at 2 is 4. What is the gradient at 2?",
        """
@jax.custom_jvp
def square(x):
    return x * x

@square.defjvp
def square_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return x * x, 100 * t

gradient = jax.grad(square)
""",
        _gradient_by_wrong_rule,
        "JAX believes your rule and looks no further; nothing compares it with the function.",
    ),
    Prediction(
        "16.d",
        "What does `jax.jvp(gently, (2.0,), (1.0,))` give?",
        """
@jax.custom_vjp
def gently(x):
    return x

gently.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))
""",
        _forward_through_vjp,
        "A custom_vjp says what comes back, and nothing about what goes forward. jax.grad works.",
        choices=("a number", "an error"),
    ),
    Prediction(
        "17.a",
        "How many arrays as large as `x` are kept from the forward pass for the backward pass?",
        """
def g(x):
    return jnp.exp(2 * jnp.sin(x)).sum()

gradient = jax.grad(g)
x = jnp.ones((256, 256))
""",
        _arrays_kept,
        "The slope of each curved step: cos(x) for the sine, and for exp its own result. "
        "Multiplying by 2 and summing have slopes that do not depend on x.",
    ),
    Prediction(
        "17.b",
        "The eight arrays are 8 MB. How many bytes of scratch memory does XLA's program take for "
        "them?",
        """
def f(x):
    for _ in range(8):
        x = jnp.sin(x)
    return x.sum()

gradient = jax.grad(f)

x = jnp.ones(250_000)
""",
        _temporaries,
        "XLA made one kernel of it all, which goes element by element. What it needs of an element "
        "is never written to memory.",
    ),
    Prediction(
        "17.c",
        "With `jax.checkpoint` nothing is kept but `x`. How many sines are in this gradient?",
        """
def f(x):
    for _ in range(8):
        x = jnp.sin(x)
    return x.sum()

gradient = jax.grad(jax.checkpoint(f))

x = jnp.ones(250_000)
""",
        _sines,
        "Eight forward. Then seven again: the last sine's result is not needed, only the cosine of "
        "its input.",
    ),
)
