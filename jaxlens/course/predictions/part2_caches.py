"""Predictions of lessons 7 to 9: what compiles, and when."""

import jaxlens
from jaxlens.course.predict import Names, Prediction, Truth


def _compiles_of_six_calls(names: Names) -> Truth:
    with jaxlens.recompiles() as log:
        names["calls"]()
    return Truth(log.compiles, log.answer)


PREDICTIONS = (
    Prediction(
        "7.a",
        "How often is `f` compiled?",
        """
f = jax.jit(lambda x: x + 1)

def calls():
    f(np.ones(3)), f(np.ones(3)), f(np.ones(4))
    f(1.0), f(2.0), f(1)
""",
        _compiles_of_six_calls,
        "Values do not count: shapes, dtypes and weak types do. `1.0` and `2.0` share a program.",
    ),
)
