"""Predictions of lessons 24 and 25: flops, bytes and memory."""

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _flops_of_a_chain(names: Names) -> Truth:
    cost = jaxlens.cost(names["chain"], names["A"], names["A"], names["v"])
    return Truth(cost.flops, cost, "flop")


def _xla_counts_a_body_once(names: Names) -> Truth:
    cap = jaxlens.capture(names["steps"], names["m"], names["v"])
    share = jaxlens.cost(cap).flops / jaxlens.receipt(cap).xla_flops
    return Truth(round(share))


def _intensity(names: Names) -> Truth:
    cost = jaxlens.cost(names["line"], names["x"])
    heaviest = max(cost.kernels, key=lambda kernel: kernel.flops)
    return Truth(round(heaviest.intensity or 0.0, 3), cost, "flop per byte")


def _first_bound_by_flops(names: Names) -> Truth:
    for n in (100, 1_000, 10_000):
        square = names["jax"].ShapeDtypeStruct((n, n), "float32")
        cost = jaxlens.cost(jaxlens.capture(names["product"], square, square), roofline="h100")
        if all(point.bound == "compute" for point in cost.points):
            return Truth(f"{n}", cost)
    return Truth("none")


def _arrays_of_temporaries(names: Names) -> Truth:
    memory = jaxlens.memory(names["layers"], names["x"], names["w"])
    return Truth(round(memory.temporaries / names["x"].nbytes), memory)


def _cube(names: Names) -> Truth:
    memory = jaxlens.memory(names["dist"], names["a"], names["a"], names["w"])
    cube = 256 * 256 * 16 * 4
    return Truth("yes" if memory.temporaries >= cube else "no", memory)


_CUBE = "Is there ever an array of 256x256x16 numbers in memory?"

PREDICTIONS = (
    Prediction(
        "24.a",
        "How many flops does `chain` do?",
        """
def chain(A, B, v):
    return A @ B @ v

A, v = jnp.ones((200, 200)), jnp.ones(200)

chain(A, A, v)
""",
        _flops_of_a_chain,
        "`A @ B` comes first and does 2 * 200³ = 16,000,000; the vector only adds 2 * 200².",
        tolerance=0.05,
    ),
    Prediction(
        "24.b",
        "How many times more flops does this do than XLA's own figure says?",
        """
def steps(m, v):
    def turn(v, _):
        return m @ v, None

    return lax.scan(turn, v, length=50)[0]

m, v = jnp.ones((64, 64)), jnp.ones(64)

steps(m, v)
""",
        _xla_counts_a_body_once,
        "XLA's analysis counts what is written in the program, and the loop's body is in it once.",
        tolerance=0.05,
    ),
    Prediction(
        "24.c",
        "How many flops does `line` do for each byte that it moves?",
        """
def line(x):
    return x * 2 + 1

x = jnp.ones((512, 512))

line(x)
""",
        _intensity,
        "It is one kernel: for each element two flops, 4 bytes read, and 4 bytes written.",
        tolerance=0.01,
    ),
    Prediction(
        "24.d",
        "Which of these is the smallest n for which a product of two n x n matrices is bound by "
        "compute on an H100?",
        """
def product(x, y):
    return x @ y
""",
        _first_bound_by_flops,
        "2 n³ flops for 12 n² bytes are n/6 flops for each byte, and that is more than 147 from "
        "n = 882 on.",
        choices=("100", "1000", "10000"),
    ),
    Prediction(
        "25.a",
        "Besides its arguments and its result, for how many arrays of 256x256 numbers does this "
        "program need memory?",
        """
def layers(x, w):
    for _ in range(5):
        x = jnp.tanh(x @ w)
    return x

x = w = jnp.ones((256, 256))

layers(x, w)
""",
        _arrays_of_temporaries,
        "Each value is needed only by the next operation, so they take turns in one array and in "
        "that of the result.",
    ),
    Prediction(
        "25.b",
        _CUBE,
        """
def dist(a, b, w):
    return ((a[:, None] - b) ** 2 * w).sum(-1)

a, w = jnp.ones((256, 16)), jnp.ones(16)

dist(a, a, w)
""",
        _cube,
        "The sum is fused with what makes its operand, so that each number is added as soon as it "
        "is there.",
        choices=("yes", "no"),
    ),
    Prediction(
        "25.c",
        _CUBE,
        """
def dist(a, b, w):
    return (a[:, None] - b) ** 2 @ w

a, w = jnp.ones((256, 16)), jnp.ones(16)

dist(a, a, w)
""",
        _cube,
        "A product is a routine that reads its operands from memory, so the cube must be there.",
        choices=("yes", "no"),
    ),
)
