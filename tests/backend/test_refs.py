"""Refs and unknown primitives: each question has an answer, and a look writes nothing."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax
from jax.experimental import pallas as pl
from jax.extend.core import Primitive
from jax.interpreters import mlir

import jaxlens
from jaxlens.answers import ask
from jaxlens.errors import UnavailableError
from jaxlens.ir.jaxpr.refs import ON_REFS
from jaxlens.links.live_equations import live_equations
from jaxlens.questions import rows
from jaxlens.viewer.panes import PANES
from tests.support.paths import marked_line

pytestmark = pytest.mark.backend

X = jnp.arange(1, 5, dtype=jnp.float32)
# These are asked of several programs, or of an option's value.
APART = {
    "against",
    "dispatch",
    "key",
    "recompiles",
    "timeline",
    "arrays",
    "without",
    "fits",
    "hlo",
    "ladder",
}
ASKED = {question.name: question for question in (*rows(), *PANES.values())}


def _of_refs(refs):
    refs[0][...] = refs[0][...] * refs[1][...]


def _kernel(x_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...])


def cube(x):
    """x to the power of 3, of a primitive that JAX lowers itself (VJPHiPrimitive left in 0.11)."""
    if not hasattr(hijax, "VJPHiPrimitive"):
        return x**3

    class Cube(hijax.VJPHiPrimitive):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x**3

        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd(self, x, cotangent, accumulate):
            accumulate.accum(cotangent * 3 * x**2)

    return Cube(jax.typeof(x))(x)


def new_kinds(given, x):
    """A Pallas kernel on what a ref holds, a hi primitive under grad, remat, and `run_state`."""
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = pl.pallas_call(_kernel, out_shape=out, interpret=True)(given[...])
    given[...] = y
    run_state = pytest.importorskip("jax._src.state.discharge").run_state
    product, _ = run_state(_of_refs)((x, y))
    slope = jax.grad(lambda x: jax.checkpoint(jnp.sin)(cube(x)).sum())(x)
    return product, slope


def primitive(name, *, multiple=False, evaluated=True, effect=None):
    """A primitive as a user defines it."""
    fresh = Primitive(name)
    fresh.multiple_results = multiple
    one = lambda x: [x * 2, x + 1] if multiple else x * 2  # noqa: E731
    shape = lambda aval: [aval, aval] if multiple else aval  # noqa: E731
    if evaluated:
        fresh.def_impl(one)
    if effect is None:
        fresh.def_abstract_eval(shape)
    else:
        fresh.def_effectful_abstract_eval(lambda aval: (shape(aval), {effect}))
    mlir.register_lowering(fresh, mlir.lower_fun(one, multiple_results=multiple))
    return fresh


ONE = primitive("fresh_one")
TWO = primitive("fresh_two", multiple=True)
COMPILED = primitive("fresh_compiled", evaluated=False)
# An effect that JAX allows in loops: that of a callback.
(DEBUG,) = jax.make_jaxpr(lambda: jax.debug.print(""))().effects
ACTS = primitive("fresh_acts", effect=DEBUG)


def unknown(given, x):
    """Primitives that no verb knows, with an effect, without evaluation, and in a loop."""
    a, b = TWO.bind(COMPILED.bind(jnp.sin(x)))
    c, _ = jax.lax.scan(lambda c, _: (ACTS.bind(ONE.bind(c)), None), a, None, length=2)
    return b + c


@pytest.mark.parametrize("f", [new_kinds, unknown], ids=lambda f: f.__name__)
def test_every_question_has_an_answer_and_writes_nothing(f):
    given = jax.new_ref(X)
    cap = jaxlens.capture(f, given, X)
    for name, question in ASKED.items():
        if name == "numerics" and f is new_kinds:
            with pytest.raises(UnavailableError, match="through what a program writes to refs"):
                str(ask(question, cap))
        elif name == "miscompile":
            with pytest.raises(UnavailableError, match="not what a program writes to refs"):
                str(ask(question, cap))
        elif name not in APART:
            assert str(ask(question, cap)), name
    np.testing.assert_array_equal(given[...], X)
    unknown_to_cost = str(ask(ASKED["cost"], cap)).partition("Not counted")[2].partition("[")[0]
    assert not ON_REFS & set(re.findall(r"\w+", unknown_to_cost))


def in_a_loop(r, x):
    made = jax.new_ref(x)

    def step(n):
        made[...] = jnp.log(made[...] - 2)  # here
        return n + 1

    jax.lax.while_loop(lambda n: n < 3, step, 0)
    return made[...]


def in_a_call(r, x):
    made = jax.new_ref(x)

    @jax.jit
    def write(y):
        made[1] = jnp.sqrt(y[0] - 4)  # here

    write(x)
    return jax.freeze(made).sum()


def in_a_branch(r, x):
    made = jax.new_ref(x)

    def write():
        made[...] = jnp.log(-x)  # here

    jax.lax.cond(x[0] > 0, write, lambda: None)
    return made[...] * 2


def in_what_was_given(r, x):
    r[0] = jnp.log(x[0] - 3)  # here
    return x


def in_a_scan_over_what_was_given(r, x):
    def step(c, i):
        r[...] = r[...] + jnp.sqrt(i - 1)  # here
        return c, i

    return jax.lax.scan(step, 0.0, x - 1)


def over_what_is_written_again(r, x):
    made = jax.new_ref(jnp.log(-x))
    made[...] = x
    made[...] = jnp.arccos(made[...] + 1)  # here
    return made[...]


NAN = [
    in_a_loop,
    in_a_call,
    in_a_branch,
    in_what_was_given,
    in_a_scan_over_what_was_given,
    over_what_is_written_again,
]


@pytest.mark.parametrize("f", NAN, ids=lambda f: f.__name__)
def test_a_nan_is_followed_through_refs_to_the_line_that_made_it(f):
    line = marked_line(f)
    given = jax.new_ref(X)
    found = jaxlens.first_nan(f, given, X)
    assert (found.kind, found.span.line) == ("nan", line)
    np.testing.assert_array_equal(given[...], X)


def test_what_is_written_to_a_ref_is_live():
    def f(x, y):
        r = jax.new_ref(jnp.zeros(4))
        r[...] = jnp.sin(x)
        r[...] = jnp.sin(r[...])
        return jax.freeze(r) * 2 + y

    cap = jaxlens.capture(f, X, X)
    module = cap.jaxpr.module
    assert live_equations(module) >= {n.id for n in module.nodes() if n.opcode in ("sin", "swap")}
    assert not jaxlens.silent(cap).found
    assert jaxlens.tree(cap).why == "it writes refs, whose elements are not followed"


RUNS = {
    "run": lambda cap: cap.driver.run(2).outputs,
    "cost": lambda cap: jaxlens.cost(cap, run=1).run.outputs,
}


def written(r, x):
    r[...] = r[...] * x + 1
    return r[...].sum()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_writes_copies_of_refs(name):
    given = jax.new_ref(X)
    outputs = RUNS[name](jaxlens.capture(jax.jit(written), given, X))
    assert outputs is None or float(outputs) == float((X * X + 1).sum())
    np.testing.assert_array_equal(given[...], X)
    closed = jax.new_ref(X)
    closing = jaxlens.capture(lambda x: written(closed, x), X)
    with pytest.raises(UnavailableError, match="closes over a ref, which a run would write"):
        RUNS[name](closing)
    np.testing.assert_array_equal(closed[...], X)


def test_a_text_of_a_program_on_refs_is_not_edited():
    cap = jaxlens.capture(written, jax.new_ref(X), X)
    with pytest.raises(UnavailableError, match="takes a ref, and a text has arrays"):
        jaxlens.edit(cap, "stablehlo", jaxlens.edit(cap, "stablehlo"))
