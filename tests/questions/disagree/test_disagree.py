"""A compiled program that is wrong is found, cut down to what was planted, and reported.

As people asked it, and the first sentence that each wanted:

- "jit gives a different result than no jit": which lines, in how many elements.
- "wrong gradient only on the GPU": that, or that rounding explains the difference.
- "NaN only under jit": which lines make it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.questions.disagree.report import report
from tests.questions.disagree.planted import amount, faulty_pass
from tests.support.paths import python

pytestmark = pytest.mark.reads_jax
RANDOM = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return jnp.asarray(RANDOM.standard_normal(shape), dtype)


def first(facts):
    return report(facts).findings[0].text


def run_alone(path):
    """Runs a file where jaxlens cannot be imported; returns the exit code and what it printed."""
    block = f"import sys, runpy; sys.modules['jaxlens'] = None; runpy.run_path({str(path)!r})"
    done = python("-c", block, folder=path.parent, without=["PYTHONPATH", "XLA_FLAGS"])
    return done.returncode, done.stdout + done.stderr


def shifted(x):
    start = x * 3 + 1
    more = jnp.cumsum(start, axis=1)
    moved = start.at[1:].set(start[:-1]).reshape((1, *start.shape))
    return more, moved


def test_the_known_fault_of_the_cpu_is_found_cut_down_and_written(tmp_path):
    """XLA:CPU, jax 0.10.2 to 0.12: an in-place update that reads what it has written."""
    x = jnp.arange(128, dtype="int32").reshape(8, 16)
    eager, compiled = (np.asarray(f(x)[1]) for f in (shifted, jax.jit(shifted)))
    differ = int((eager != compiled).sum())
    if not differ:
        pytest.skip("this XLA compiles it rightly")
    path = tmp_path / "wrong.py"
    facts = jaxlens.disagree(jaxlens.capture(shifted, x), write=str(path)).facts
    assert [one.wrong for one in facts.results] == [0, differ]
    assert facts.reduced.opcodes == ("slice", "scatter", "reshape")
    assert facts.reduced.types[0] != "i32[8,16]"  # smaller, with the bounds of its slices
    assert {span.line for span in facts.spans.values()} == {shifted.__code__.co_firstlineno + 3}
    assert f"differs from op by op in {differ} of 128 elements" in first(facts)
    assert facts.trials[""] is False
    assert "scatter_expander" in facts.cures
    assert "in `" in report(facts).findings[3].text
    code, said = run_alone(path)
    assert code == 1, said
    assert "WRONG: " in said
    assert path.read_text() in facts.issue
    assert "scatter_expander: right" in facts.issue


def long_integers(x):
    a = x + 1
    b = a - 17
    c = jnp.maximum(b, x)
    d = jnp.cumsum(c)
    e = (d ^ 3) * 5
    f = jnp.minimum(e, 4000)
    return f - x, d


def long_floats(x):
    a = jnp.sin(x) * 0.5
    b = jax.nn.softmax(a)
    c = jnp.log1p(jnp.abs(b) + 1)
    d = jnp.tanh(c * 1.5 + 2.5)
    return jnp.sum(d @ normal_square), c


def nan_only_compiled(x):
    a = jnp.cumsum(x) / 3
    b = jnp.sqrt(jnp.exp(a))
    return b + 1, a


normal_square = np.asarray(RANDOM.standard_normal((16, 16)), "float32")

PLANTED = {
    "integers": (long_integers, jnp.arange(64, dtype="int32"), ("multiply", "xor", "subtract"),
                 ("xor", "mul")),
    "floats": (long_floats, normal(16, 16), ("tanh", "add", "negate"), ("add", "tanh")),
    "nan": (nan_only_compiled, normal(16), ("sqrt", "exponential", "log"), ("exp", "sqrt")),
}  # fmt: skip


@pytest.mark.parametrize(("f", "x", "fault", "left"), PLANTED.values(), ids=PLANTED)
def test_a_planted_pass_is_found_and_cut_down_to_its_two_equations(f, x, fault, left):
    with faulty_pass(*fault):
        facts = jaxlens.disagree(f, x).facts
    assert facts.reduced is not None, facts
    assert facts.reduced.opcodes == left
    assert {kind.strip("[1,]") for kind in facts.reduced.types} <= {"i32", "f32"}  # one element
    assert facts.reduced.complete
    assert facts.cures == ()  # the fault is planted in this process alone
    assert "In another process" in report(facts).findings[1].text
    assert not jaxlens.disagree(jax.jit(lambda x: f(x)), x).found  # without the planted fault


def wrong_lowering(x):
    a = jnp.cos(x) + x
    b = amount(a) - 1
    return jnp.sum(b * a, axis=0), jnp.max(a)


def test_a_wrong_lowering_is_found_and_no_pass_blamed(tmp_path):
    x = jnp.asarray(np.linspace(-4, 4, 40, dtype="float32").reshape(5, 8))
    facts = jaxlens.disagree(jaxlens.capture(wrong_lowering, x), write=str(tmp_path / "w.py")).facts
    assert facts.reduced.opcodes == ("twice_planted",)
    assert facts.span.line == amount.__code__.co_firstlineno + 2
    assert facts.cures == ()
    assert "None of " in report(facts).findings[1].text
    code, said = run_alone(tmp_path / "w.py")
    assert code == 1, said


def test_values_that_are_many_are_in_a_file_beside_it(tmp_path):
    x = np.zeros(300, "float32")
    x[-1] = 3  # in the half that is cut off
    facts = jaxlens.disagree(jaxlens.capture(amount, x), write=str(tmp_path / "w.py")).facts
    assert facts.reduced.types == ("f32[300]",)
    assert (tmp_path / "w.npz").exists()
    code, said = run_alone(tmp_path / "w.py")
    assert (code, "1 of 300 elements are wrong" in said) == (1, True), said


def test_a_callback_sees_no_moved_value():
    seen = []

    def f(x):
        total = jnp.sum(jnp.sin(x))
        jax.debug.callback(lambda value: seen.append(float(value)), total)
        return amount(x) + total

    assert jaxlens.disagree(f, jnp.linspace(1, 4, 8)).found
    assert len(set(np.float32(seen))) <= 2  # op by op and compiled


def loop(x):
    def step(carry, row):
        return amount(carry) / 2 + row, carry.sum()

    return jax.lax.scan(step, x[0], x)


def test_the_body_of_a_loop_is_entered():
    x = np.linspace(1, 4, 40, dtype="float32").reshape(5, 8)
    facts = jaxlens.disagree(loop, x).facts
    assert facts.reduced.opcodes == ("twice_planted",)
    assert len(facts.reduced.equations[0]) == 2


def test_a_flag_that_loses_nan_is_named():
    flags = {"xla_cpu_enable_fast_math": True, "xla_cpu_fast_math_honor_nans": False}
    f = jax.jit(lambda x: (jnp.isnan(x * 2), x + 1), compiler_options=flags)
    facts = jaxlens.disagree(f, jnp.asarray([1.0, np.nan, 3.0, np.inf])).facts
    assert facts.reduced.opcodes == ("ne",)
    assert facts.cures == ("xla_cpu_enable_fast_math=false",)
    assert "`result[0]`, bool[4], differs from op by op in 1 of 4 elements" in first(facts)
    assert "with `xla_cpu_enable_fast_math=false`" in report(facts).findings[1].text


def scanned(x):
    def step(carry, row):
        carry = jnp.sin(carry * 1.7) + row
        return carry, carry * 2

    return jax.lax.scan(step, x[0], x)


THREE = np.tile(np.float32([1e8, -1e8, 1]), 64)
INNOCENT = {
    "softmax": (lambda x: jax.nn.softmax(x * 1.3), normal(64, 128)),
    "softmax in bfloat16": (lambda x: jax.nn.softmax(x * 1.3), normal(64, 128, dtype="bfloat16")),
    "sums": (lambda x: (jnp.abs(x) * 1.1 + 0.3).sum(0).sum(), normal(300, 300)),
    "a sum that is exact by luck": (lambda x: (x * 2).reshape(-1, 3).sum(1), jnp.asarray(THREE)),
    "matmul": (lambda x: jax.nn.relu(x @ x.T + 0.3), normal(64, 256)),
    "matmul in bfloat16": (lambda x: jax.nn.gelu(x @ x.T), normal(64, 256, dtype="bfloat16")),
    "exp chain": (lambda x: jnp.exp(jnp.sin(jnp.exp(jnp.sin(x) * 3))) * 1.1, normal(1000)),
    "cancellation": (lambda x: (x * 1.1 + 1e4) - 1e4 - x * 1.1, normal(1000)),
    "variance": (lambda x: (x**2).mean() - x.mean() ** 2, normal(1000) + 100),
    "gradient": (jax.grad(lambda x: jnp.mean((jnp.tanh(x @ x.T) - 1.5) ** 2)), normal(64, 32)),
    "attention": (lambda q: jax.nn.softmax(q @ q.T / 8.0) @ q, normal(64, 64)),
    "scan": (scanned, normal(50, 8)),
    "compared": (lambda x: (x * 1.1 + 0.3 > 0.85, jnp.argsort(x)), jnp.linspace(0, 1, 1001)),
    "integers": (lambda x: jnp.cumsum(x * 3) % 7, jnp.arange(1000)),
    "a key": (lambda key: jax.random.normal(key, (100,)), jax.random.key(0)),
    "inverse": (lambda x: jnp.linalg.inv(x * 1.1 + 0.1), normal(16, 16)),
}


@pytest.mark.parametrize(("f", "x"), INNOCENT.values(), ids=INNOCENT)
def test_what_rounding_explains_is_no_fault(f, x):
    facts = jaxlens.disagree(f, x).facts
    assert not facts.found
    assert first(facts).startswith("Jit agrees with op by op")


def test_wide_types_agree():
    with jax.enable_x64(True):
        x = jnp.asarray(RANDOM.standard_normal(1000))
        assert x.dtype == "float64"
        facts = jaxlens.disagree(lambda x: (jnp.exp(jnp.sin(x) * 3) * 1.1, x * (1 + 1j)), x).facts
        assert not facts.found
        wrong = jaxlens.disagree(wrong_lowering, x.reshape(10, 100)).facts
    assert wrong.reduced.opcodes == ("twice_planted",)


def test_a_file_that_cannot_be_written(tmp_path):
    x = jnp.linspace(1, 4, 8)
    with pytest.raises(OptionError, match="expected the name of a file that can be written"):
        str(jaxlens.disagree(jaxlens.capture(amount, x), write=str(tmp_path / "no" / "w.py")))
