"""Statistics are NumPy's, of every value that the same equations make op by op."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxlens
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.jaxpr.params import with_counts
from jaxlens.taps import execute
from tests.support.jax_events import Compiles

F = np.float32
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(3, 4)).astype(F)
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr"}  # fmt: skip


def op_by_op(closed, args) -> dict:
    """Executes a jaxpr in Python: the arrays of each equation, with the iterations."""
    known = bodies(opened(closed))
    made: dict = {}

    def body(closed, args, path, steps):
        jaxpr = opened(closed)
        consts = closed.consts if hasattr(closed, "consts") else ()
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

        def read(atom):
            return atom.val if hasattr(atom, "val") else values[atom]

        for eqn, ident in zip(jaxpr.eqns, known[id(jaxpr)].ids, strict=True):
            operands = [read(atom) for atom in eqn.invars]
            name, here, p = eqn.primitive.name, (*path, ident), eqn.params
            if name in CALLS:
                results = body(p[CALLS[name]], operands, here, steps)
            elif name == "cond":
                results = body(p["branches"][int(operands[0])], operands[1:], here, steps)
            elif name == "while":
                n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
                results, step = operands[m:], 0
                while body(p["cond_jaxpr"], [*operands[:n], *results], ("test",), ())[0]:
                    results = body(
                        p["body_jaxpr"], [*operands[n:m], *results], here, (*steps, step)
                    )
                    step += 1
            elif name == "scan":
                results = scan(with_counts(eqn), operands, here, steps)
            else:
                bound = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(p))
                results = bound if eqn.primitive.multiple_results else [bound]
                made.setdefault(here, []).append((steps, [np.asarray(x) for x in results]))
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def scan(p, operands, path, steps):
        n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
        carry, out = operands[n:m], []
        for step in range(p["length"]):
            xs = (x[step] for x in operands[m:])
            results = body(p["jaxpr"], [*operands[:n], *carry, *xs], path, (*steps, step))
            carry = results[: m - n]
            out.append(results[m - n :])
        return [*carry, *(jnp.stack(column) for column in zip(*out, strict=True))]

    body(closed, args, (), ())
    return made


def expected(arrays: list) -> dict:
    """NumPy's statistics of all arrays that an equation made."""
    flat = np.concatenate([x.ravel() for x in arrays])
    flat = np.abs(flat) if np.iscomplexobj(flat) else flat
    tiny = float(jnp.finfo(flat.dtype).tiny)
    flat = flat.astype(np.float64)
    finite, held, size = flat[np.isfinite(flat)], flat[~np.isnan(flat)], np.abs(flat)
    return {
        "elements": flat.size,
        "executions": len(arrays),
        "least": held.min(initial=np.inf) if held.size else np.nan,
        "most": held.max(initial=-np.inf) if held.size else np.nan,
        "smallest": size[(size > 0)].min() if (size > 0).any() else np.nan,
        "largest": np.abs(finite).max() if finite.size else np.nan,
        "zeros": int((flat == 0).sum()),
        "nan": int(np.isnan(flat).sum()),
        "inf": int(np.isinf(flat).sum()),
        "subnormals": int(((size > 0) & (size < tiny)).sum()),
    }


def worst(runs: list) -> tuple:
    """The iterations of the first execution that is not finite, else of the largest magnitude."""
    bad = [steps for steps, x in runs if not np.isfinite(x).all()]
    if bad:
        return bad[0]
    return max(runs, key=lambda run: np.abs(run[1]).max())[0]  # the first of equal ones


def newton(x):
    def step(state):
        guess, n = state
        return 0.5 * (guess + x / guess), n + 1

    return lax.while_loop(lambda state: jnp.abs(state[0] ** 2 - x) > 1e-4, step, (x, 0))[0]


def scanned(h, xs):
    def cell(h, x):
        h = lax.cond(x[0] > 0, lambda h: jnp.tanh(h * 2), lambda h: h * 0.5 - 1, h) + x
        return h, (jnp.log(h.sum()), lax.fori_loop(0, 3, lambda n, y: y * h[0] + n, x[0]))

    return lax.scan(cell, h, xs)


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x) * 3


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * jnp.cos(x), -1, 1),))


def loss(w, x):
    return jnp.sum(jax.nn.relu(clipped(x @ w)) ** 2)


def special(x):
    large = jnp.where(x > 0, jnp.finfo(F).max, x) * F(0.5)
    half = (x * 1e-6).astype(jnp.float16)
    brain = jnp.exp(x * 60).astype(jnp.bfloat16)
    return large, half + half, brain * brain, jnp.log(x), lax.complex(x, x) * 2, x * 0, x + 1e4


LONG = DRAWN.normal(size=5000).astype(F)
PROGRAMS = {
    "special": (special, (LONG,)),
    "while": (newton, (F(2),)),
    "scan, cond": (scanned, (np.ones(4, F), DRAWN.normal(size=(6, 4)).astype(F))),
    "grad, custom_vjp, vmap": (
        jax.vmap(jax.grad(loss), (None, 0)),
        (DRAWN.normal(size=(4, 2)).astype(F), DRAWN.normal(size=(3, 5, 4)).astype(F)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_statistics_are_those_of_numpy(name):
    f, args = PROGRAMS[name]
    answer = jaxlens.values(f, *args)
    truth = op_by_op(jax.jit(f).trace(*args).jaxpr, args)
    assert len(answer.values) >= 3
    for value in answer.values:
        runs = [(steps, results[value.statistics.result]) for steps, results in truth[value.path]]
        # XLA rounds products and sums together, and computes exp and log on its own.
        tolerance = 2e-2 if value.statistics.dtype == "bfloat16" else 2e-5
        for field, number in expected([x for _, x in runs]).items():
            near = pytest.approx(number, rel=tolerance, abs=0, nan_ok=True)
            assert getattr(value.statistics, field) == near, (name, value.opcode, field)
        assert value.statistics.iterations == worst(runs), (name, value.opcode)
    measured = {value.path for value in answer.values}
    floats = {path for path, runs in truth.items() if path[0] != "test"
              and jnp.issubdtype(runs[0][1][0].dtype, jnp.inexact)}  # fmt: skip
    moves = {"broadcast_in_dim", "reshape", "squeeze", "transpose", "copy", "expand_dims"}
    opcodes = {node.id: node.opcode for node in answer.subject().jaxpr.module.nodes()}
    assert {opcodes[path[-1]] for path in floats - measured} <= moves


def test_a_compile_goes_on_without_an_option_that_xla_does_not_know(monkeypatch):
    options = {"xla_cpu_no_such_option": True, "xla_backend_optimization_level": 1}
    monkeypatch.setattr(execute, "_LEAST_WORK", options)
    assert jaxlens.values(lambda x: x * 2, X).values[0].statistics.elements == X.size


def layers(count):
    def f(x, weights):
        for n in range(count):
            for w in weights:
                x = jnp.tanh(x @ w) * F(n + 1) + jnp.sin(x)
        return x

    return f


def test_equal_layers_are_compiled_once_and_keep_their_constants():
    weights = [np.eye(4, dtype=F) * k for k in range(1, 4)]
    with Compiles() as few:
        jaxlens.values(layers(8), X, weights)
    with Compiles() as many:
        answer = jaxlens.values(layers(16), X, weights)
    assert len(many.names) - len(few.names) < 16
    last = answer.values[-1].statistics
    assert last.most == pytest.approx(np.asarray(layers(16)(X, weights)).max(), rel=1e-5)


def test_a_while_under_vmap_stops_each_example_by_itself():
    doubled = jax.vmap(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))
    answer = jaxlens.values(lambda x: doubled(x) + 0, np.array([1, 3, 20], F))
    last = answer.values[-1].statistics
    assert (last.least, last.most) == (12, 20)
    assert answer.values[0].statistics.executions == 4


def test_donated_arguments_stay_valid():
    x = jnp.arange(4.0)
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    assert jaxlens.values(f, x).values[0].statistics.most == 4
    assert np.asarray(x).tolist() == [0, 1, 2, 3]


def test_a_shape_without_data_is_refused_in_one_line():
    with pytest.raises(OptionError, match="needs arrays, got only the shape"):
        jaxlens.values(lambda x: x + 1, jax.ShapeDtypeStruct((3,), F)).values


def test_a_program_of_the_core_says_where_to_look():
    from jaxlens import core

    with pytest.raises(UnavailableError, match=r"jaxlens\.core is not measured"):
        jaxlens.values(core.jit(lambda x: core.numpy.sin(x)), X).values


def test_values_of_named_modules_stand_together_and_a_mask_is_called_one():
    def f(w, x):
        def loss(w):
            with jax.named_scope("attention"):
                scores = jnp.where(x > 0, x @ w, jnp.finfo(jnp.float32).min)
            with jax.named_scope("head"):
                return jnp.sum(jax.nn.softmax(scores))

        return jax.grad(loss)(w)

    answer = jaxlens.values(f, jnp.ones((3, 3)), jnp.eye(3) * 7)
    text = answer.text()
    assert "is 3.4e+38, float32's largest number, as in a mask: float32 overflows" in text
    (modules,) = (one for one in answer.report.tables if one.title == "Values by module")
    cells = [[cell.text for cell in row[:5]] for row in modules.rows]
    assert cells[0][:2] == ["attention", ""]
    assert cells[0][4] == "7"
    assert ["attention", "backward"] in [row[:2] for row in cells]
    assert sum(int(row[2]) for row in cells) == len(answer.values)


def test_an_infinity_that_no_result_has_is_said_to_be_on_the_way():
    def summed(x):
        return lax.scan(lambda c, v: (c + jnp.where(v == 0, 0.0, 1 / v), None), 0.0, x)[0]

    inside = jaxlens.values(summed, np.arange(4, dtype=F))
    assert inside.finite
    first = inside.findings[0].text
    assert "the results are finite, and on the way 1 equation has NaN or infinities" in first
    assert "in iteration 0 (from 0): 1 inf of 4 elements." in first
    out = jaxlens.values(lambda x: 1 / x, np.arange(4, dtype=F))
    assert not out.finite
    assert out.findings[0].text.endswith("`%%nan` says where they come from.")


@pytest.mark.parametrize("f", [jnp.std, lambda x: jnp.where(x < 9, x, jnp.nan)])
def test_a_nan_that_is_written_and_not_taken_is_no_finding(f):
    answer = jaxlens.values(f, np.arange(4, dtype=F))
    assert answer.values
    assert answer.nonfinite == ()
    assert answer.findings[0].text.endswith("no NaN and no infinity.")


def counted(x, n):
    def step(carry, key):
        number, low = carry
        return (number * 3 - 7, low - 1), (key ^ jnp.uint32(2**31), x > key.astype(F) * F(0.5**31))

    keys = jnp.arange(5, dtype=jnp.uint32) * jnp.uint32(900_000_000)
    carry, rows = lax.scan(step, (n, jnp.int8(-120)), keys)
    return carry, rows, n + (2**31 - 3), n.astype(jnp.uint32) - 10, jnp.arange(3000) * 2


def test_integers_and_booleans_are_those_of_numpy():
    args = (LONG, jnp.int32(2))
    answer = jaxlens.values(counted, *args)
    truth = op_by_op(jax.jit(counted).trace(*args).jaxpr, args)
    types = set()
    for value in answer.integers:
        own = value.statistics
        arrays = [results[own.result] for _, results in truth[value.path]]
        flat = np.concatenate([x.ravel() for x in arrays]).astype(np.int64)
        expected = (len(arrays), flat.size, flat.min(), flat.max(), (flat == 0).sum())
        found = (own.executions, own.elements, own.least, own.most, own.zeros)
        assert found == expected, value
        types.add(own.dtype)
    assert types == {"int32", "uint32", "int8", "bool"}
    table = answer.report.tables[-1]
    assert table.title == "Integers and booleans by equation"
    cells = [[cell.text for cell in row] for row in table.rows]
    compared = next(row for row in cells if row[3].startswith("bool"))
    assert compared[1] == "gt"
    assert compared[4:7] == ["", "", ""]
    share = next(value for value in answer.integers if value.opcode == "gt")
    assert compared[7] == f"{1 - share.zeros:.0%}"
    assert ["5,998"] in [row[5:6] for row in cells]


def test_a_program_of_integers_alone_says_what_they_hold():
    answer = jaxlens.values(lambda n: n * 2 > 4, jnp.arange(5))
    says = "The program was run, and computes no floats"
    measured = "2 equations with integers or booleans measured"
    assert answer.findings[0].text == f"{says}: {measured}."
    moved = jaxlens.values(lambda n: n.reshape(5, 1), jnp.arange(5))
    assert moved.findings[0].text == f"{says} to measure."
    assert [(v.statistics.least, v.statistics.most) for v in answer.integers] == [(0, 8), (0, 1)]
    assert "60%" not in answer.text()
    assert "40%" in answer.text()


W = DRAWN.normal(size=(4, 4)).astype(F)
BEGIN_ZERO = {
    "a dead activation": (lambda x, w: jax.nn.relu(x @ w - 100.0), "`max`"),
    "an underflow": (lambda x, w: (x @ w * 1e-30) ** 2, "`integer_pow`"),
    "given as zeros": (lambda x, w: x * 0.9 + (w * 0)[:3], ""),
    "constants": (lambda x, w: x + jnp.zeros((3, 4)) * 2.0, ""),
    "of zeros": (lambda x, w: (jax.nn.relu(x @ w - 100.0) @ w).sum(0) * x, "`max`"),
    "one-hot": (lambda x, w: jax.nn.one_hot(jnp.arange(3), 40), ""),
    "written at indices": (
        lambda x, w: jnp.zeros((3, 40)).at[jnp.arange(3), 1].set(x[:, 0] * 2),
        "",
    ),
    "added at indices": (lambda x, w: jnp.zeros((3, 40)).at[jnp.arange(3), 1].add(x[:, 0] * 2), ""),
    "updated": (lambda x, w: lax.dynamic_update_slice(jnp.zeros((3, 99)), x * 2, (0, 1)), ""),
    "joined": (lambda x, w: jnp.concatenate([x * 2, jnp.zeros((99, 4))]), ""),
    "padded": (lambda x, w: lax.pad(x * 2, 0.0, [(0, 99, 0), (0, 0, 0)]), ""),
    "sign": (lambda x, w: jax.grad(lambda x: jnp.sum(jnp.abs(x @ w + 100)))(x), ""),
}


@pytest.mark.parametrize("name", BEGIN_ZERO)
def test_zeros_are_said_where_they_begin(name):
    f, opcode = BEGIN_ZERO[name]
    said = [one.text for one in jaxlens.values(f, X, W).findings if "are zero" in one.text]
    assert len(said) == bool(opcode)
    if opcode:
        assert said[0].startswith(f"12 of 12 elements of {opcode} in test_values.py:")
        assert said[0].endswith("are zero, though none of its operands' elements are.")
