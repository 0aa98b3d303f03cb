"""Comparison of live programs with known differences, and receipts across processes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import core
from tests.support import programs
from tests.support.hlo_counts import joining_fusions
from tests.support.model_programs import on_models, program
from tests.support.paths import run_python

pytestmark = pytest.mark.backend
X = np.ones((64, 32), np.float32)
W = np.ones((32, 16), np.float32)


def plain(x, w):
    return jnp.tanh(x @ w).sum()


def doubled(x, w):
    y = x * 2.0
    z = jnp.tanh(y @ w)
    return (z * z).sum()


def test_two_multiplications_put_in_are_all_that_is_new():
    before, after = jaxlens.capture(plain, X, W), jaxlens.capture(doubled, X, W)
    answer = jaxlens.compare(before, after)
    nodes = {node.id: node for node in after.jaxpr.module.nodes()}
    assert [nodes[id].opcode for id in answer.new] == ["mul", "mul"]
    assert not answer.gone
    assert not answer.changed
    source = after.sources[nodes[answer.new[0]].owner.key].text.splitlines()
    lines = [source[nodes[id].owner.line - 1].strip() for id in answer.new]
    assert lines == ["y = x * 2.0", "return (z * z).sum()"]
    assert answer.figures["equations"] == (3, 5)
    assert answer.figures["flops"][1] - answer.figures["flops"][0] == 64 * 32 + 64 * 16
    said = answer.findings[0].text
    assert said.startswith("The edit: ")
    assert "2 equations are new (test_compare_live.py:" in said
    back = jaxlens.compare(after, before)
    assert (len(back.new), len(back.gone)) == (0, 2)


def test_the_same_program_twice_is_the_same():
    answer = jaxlens.compare(jaxlens.capture(plain, X, W), jaxlens.capture(plain, X, W))
    assert answer.same
    assert answer.findings[0].text == (
        "Another compile: the same program runs; the same equations."
    )


def test_another_batch_changes_types_and_makes_nothing_new():
    half = X[:32]
    answer = jaxlens.compare(jaxlens.capture(plain, X, W), jaxlens.capture(plain, half, W))
    assert (answer.new, answer.gone) == ((), ())
    assert len(answer.changed) == 2  # what is summed has no batch any more
    assert answer.causes[0].text == "With x f32[32,32] instead of f32[64,32]"
    # Of the arguments the half of x goes.
    was, now = answer.figures["bytes"]
    assert was - now == half.nbytes


def narrow(x, w):
    return jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).sum()


def test_equations_of_an_edited_line_are_told_from_new_ones():
    answer = jaxlens.compare(jaxlens.capture(plain, X, W), jaxlens.capture(narrow, X, W))
    nodes = {node.id: node for node in answer.capture.jaxpr.module.nodes()}
    casts = ["convert_element_type"] * 2
    assert [nodes[id].opcode for id in answer.new][:2] == casts
    assert {nodes[id].opcode for id in answer.changed.values()} >= {"dot_general", "tanh"}
    assert not answer.gone


def test_a_static_value_that_leaves_a_line_out_is_no_edit():
    def f(x, train):
        y = jnp.sin(x)
        if train:
            y = jnp.cos(y)
        return y

    jitted = jax.jit(f, static_argnames="train")
    before, after = (jaxlens.capture(jitted, X, train=train) for train in (True, False))
    said = jaxlens.compare(before, after).findings[0].text
    assert said.startswith("With train=False instead of True: ")


def test_donation_is_told_by_what_it_does_to_the_peak():
    def step(p, x):
        return jax.tree.map(lambda a: a - 0.1 * x.sum(), p)

    p = {"a": jnp.ones((256, 256)), "b": jnp.ones((256, 256))}
    kept = jaxlens.capture(jax.jit(step), p, X)
    given = jaxlens.capture(jax.jit(step, donate_argnums=0), p, X)
    answer = jaxlens.compare(kept, given)
    said = answer.findings[0].text
    assert said.startswith("With 2 donated arrays in p: ")
    was, now = answer.figures["peak"]
    assert was - now == 2 * 256 * 256 * 4  # the results stand in the place of the arguments
    assert "524 kB less memory at the peak" in said


def test_saved_captures_and_views_are_compared_as_live_ones(tmp_path):
    before, after = jaxlens.capture(plain, X, W), jaxlens.capture(doubled, X, W)
    live = jaxlens.compare(before, after)
    before.save(tmp_path / "a.jaxlens")
    after.save(tmp_path / "b.jaxlens")
    saved = jaxlens.compare(tmp_path / "a.jaxlens", str(tmp_path / "b.jaxlens"))
    assert (saved.new, saved.gone, saved.figures) == (live.new, live.gone, live.figures)
    assert saved.findings == live.findings
    viewed = jaxlens.compile(after, against=jaxlens.compile(before))
    assert live.findings[0].text.split(" (")[0] in " ".join(str(viewed).split())
    traced = jaxlens.jaxpr(jaxlens.capture(doubled, X, W), against=before)
    assert "2 equations are new" in " ".join(str(traced).split())
    with pytest.raises(jaxlens.LensError, match="expected a Capture"):
        jaxlens.compare(before, 3)


def test_a_program_of_the_core_is_compared_with_that_of_jax():
    def loss(w, x):
        return core.numpy.tanh(x @ w).sum()

    def theirs(w, x):
        return jnp.tanh(x @ w).sum()

    answer = jaxlens.compare(jaxlens.capture(loss, W, X), jaxlens.capture(theirs, W, X))
    assert answer.figures["flops"][0] == answer.figures["flops"][1]
    assert answer.figures["equations"] == (3, 3)
    assert not answer.gone


def test_fusions_of_a_receipt_are_those_of_the_text():
    receipt = jaxlens.receipt(jax.grad(doubled), X, W)
    assert receipt.fusions == joining_fusions(receipt.capture.optimized.text)
    assert receipt.equations == len(jax.make_jaxpr(jax.grad(doubled))(X, W).eqns)
    sizes = jax.jit(jax.grad(doubled)).lower(X, W).compile().memory_analysis()
    assert receipt.temporaries == sizes.temp_size_in_bytes
    memory = jaxlens.memory(receipt.capture)
    assert (receipt.peak, receipt.reserved) == (memory.peak, memory.reserved)


def test_a_receipt_traces_before_it_compiles():
    def loud(x):
        traced.append(1)
        return jnp.sin(x) + 1

    traced = []
    receipt = jaxlens.receipt(loud, X)
    assert not traced
    assert receipt.equations == 2
    assert len(traced) == 1
    assert "compile" not in {step.step for step in receipt.capture.times}
    assert receipt.fusions == 1  # sin, and the addition with its constant spread
    assert len(traced) == 1


SCRIPT = """
import jaxlens
from tests.support import programs
for name in ("mlp_step", "scan_rnn", "while_cond"):
    f, args = getattr(programs, name)()
    print(jaxlens.receipt(f, *args).fingerprint)
"""


def test_a_fingerprint_is_the_same_in_every_process():
    fingerprints = [run_python(SCRIPT, PYTHONHASHSEED=seed).split() for seed in ("1", "2")]
    mine = []
    for name in ("mlp_step", "scan_rnn", "while_cond"):
        f, args = getattr(programs, name)()
        mine.append(jaxlens.receipt(f, *args).fingerprint)
    assert fingerprints[0] == fingerprints[1] == mine
    assert len(set(mine)) == 3


def test_a_fingerprint_tells_programs_apart_and_names_do_not():
    def same(left, right):
        total = jnp.tanh(left @ right)
        return total.sum()

    print_of = lambda f, *args: jaxlens.receipt(f, *args).fingerprint  # noqa: E731
    assert print_of(same, X, W) == print_of(plain, X, W)
    assert print_of(doubled, X, W) != print_of(plain, X, W)
    assert print_of(plain, X[:8], W) != print_of(plain, X, W)
    ones, twos = np.ones(3, np.float32), np.full(3, 2, np.float32)
    assert print_of(lambda x: x + ones, ones) != print_of(lambda x: x + twos, ones)


@on_models
def test_programs_of_libraries_are_compared_with_their_gradients(name):
    f, args = program(name)
    first, second = jaxlens.capture(f, *args), jaxlens.capture(f, *args)
    answer = jaxlens.compare(first, second, compiled=False)
    assert answer.equations.equal
    assert jaxlens.receipt(first).stable == jaxlens.receipt(second).stable
