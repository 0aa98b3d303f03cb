"""Verbs and lenses on programs written by others: each answer against JAX's, XLA's or NumPy's.

Fusions and comparisons have tests of their own on these programs (`test_what_if.py`,
`test_compare_live.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from jax._src.ad_checkpoint import saved_residuals
from jax._src.interpreters import partial_eval
from jax._src.jaxpr_util import all_eqns
from jax.extend import core as jax_core

import jaxlens
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.live_ranges import live
from jaxlens.program.counted import facts as cost_of
from jaxlens.questions.constants.facts import facts as captured_of
from jaxlens.questions.times.equations import written_out
from tests.ir.hlo.test_hlo_oracle import assert_same
from tests.questions.memory.test_memory_real import _temporaries, heap_peak
from tests.support.model_programs import LAYERS, MARKS, NAMES, captured, program

pytestmark = [pytest.mark.backend, *MARKS]
DTYPES = {"float32": "f32", "int32": "i32", "bool": "bool"}


def nbytes(tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("name", NAMES)
def test_equations_are_counted_as_jax_counts_them(name):
    f, args = program(name)
    traced = jax.jit(f).trace(*args)
    theirs = [
        eqn.primitive.name for _, eqn in all_eqns(traced.jaxpr.jaxpr, revisit_inner_jaxprs=False)
    ]
    ours = [node.opcode for node in captured(name).jaxpr.module.nodes()]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stage", ["hlo", "optimized"])
def test_instructions_are_counted_as_jaxlib_counts_them(name, stage):
    seen = getattr(captured(name), stage)
    same = assert_same(seen.text, name)  # names, opcodes and operands, computation by computation
    assert same == sum(1 for _ in seen.module.nodes())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile"])
def test_every_verb_shows_it(name, verb):
    view = getattr(jaxlens, verb)(captured(name))
    taken = " ".join(str(view).split("\n\n")[0].split())
    assert re.search(r"on cpu, jitted for this look \(as written, it runs .*op by op\)$", taken)
    assert len(str(view)) < 200_000
    assert len(view.html().encode()) < 5_000_000


@pytest.mark.parametrize("name", NAMES)
def test_equations_written_out_are_jaxs(name: str) -> None:
    f, args = program(name)
    traced = jax.jit(f).trace(*args)
    every = sum(1 for _ in all_eqns(traced.jaxpr.jaxpr, revisit_inner_jaxprs=True))
    counted, loops = written_out(captured(name))
    assert counted.total == every
    assert sum(counted.own.values()) <= every  # those that no line of the user's made are in none
    for loop in loops:
        assert loop.count >= 4
        assert loop.block < every
    if name == "gpt_step":
        assert [loop.count for loop in loops] == [LAYERS, LAYERS]
        assert sum(loop.equations for loop in loops) > every / 2
    elif name == "diffrax_solve":
        # It rounds a time down a hundred times, in a loop of Python's.
        (loop,) = loops
        assert loop.count in (99, 100)
        assert loop.line.startswith("diffrax/_integrate.py:")
    else:
        assert not loops


@pytest.mark.parametrize("name", NAMES)
def test_arguments_and_results_are_numpys(name: str) -> None:
    f, args = program(name)
    results = jax.eval_shape(f, *args)
    use = jaxlens.memory(captured(name))
    assert use.kind("argument") == use.arguments == nbytes(args)
    tables = 8 * len(jax.tree.leaves(results))  # of pointers to several results
    assert use.outputs - nbytes(results) in (0, tables)
    assert jaxlens.cost(captured(name)).facts.cost.bytes == nbytes(args) + nbytes(results)
    assert sum(use.by_line.values()) + use.kind("argument") == use.peak <= use.reserved
    assert use.findings[0].text.startswith("The peak is")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gpt_step"])
def test_temporaries_peak_where_xlas_heap_simulator_says(name: str) -> None:
    f, args = program(name)
    found = max(_temporaries(live(buffers.read(captured(name).buffers))))
    assert found == pytest.approx(heap_peak(jax.jit(f), args), rel=0.02, abs=64)


@pytest.mark.parametrize(("name", "by"), [("flax_nnx", (0,)), ("numpyro_potential", (0, 1))])
def test_residuals_are_those_that_jax_lists(name: str, by: tuple[int, ...]) -> None:
    f, args = program(name)

    def loss(*chosen):
        full = [chosen[by.index(n)] if n in by else arg for n, arg in enumerate(args)]
        found = f.__wrapped__(*full)
        return found[0] if isinstance(found, tuple) else found

    theirs, made = Counter(), Counter()
    for aval, said in saved_residuals(loss, *(args[n] for n in by)):
        kind = DTYPES[str(aval.dtype)], aval.shape
        if "from the argument" in said:
            continue  # inputs stay anyway
        # What JAX can write down again when the backward pass begins is in its list alone.
        again = any(words in said for words in ("a constant", "a literal", "broadcast_in_dim"))
        (made if again else theirs)[kind] += 1
    ours = Counter((one.type.dtype, one.type.shape) for one in jaxlens.memory(f, *args).residuals)
    assert not theirs - ours
    assert not ours - theirs - made


@pytest.mark.parametrize("name", ["flax_nnx", "equinox_optax", "numpyro_potential", "gpt_step"])
def test_flops_are_xlas_before_it_optimises(name: str) -> None:
    """XLA sees what is left when equations that nobody reads are gone, so both count that.

    Within 2 %: what adds 0.0 or multiplies by 1.0, as optimisers do, lowering takes away, and of
    two scalars that are the same it keeps one.
    """
    f, args = program(name)
    traced = jax.jit(f).trace(*args).jaxpr
    kept, used = partial_eval.dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars))
    leaves = [leaf for leaf, is_used in zip(jax.tree.leaves(args), used, strict=True) if is_used]
    needed = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(kept, traced.consts))
    theirs = jax.jit(needed).lower(*leaves).cost_analysis()
    ours = cost_of(jaxlens.capture(needed, *leaves), compiled=False)
    assert ours.flops == pytest.approx(theirs["flops"], rel=0.02)
    assert ours.transcendentals == pytest.approx(theirs["transcendentals"], rel=0.002, abs=1)
    whole = cost_of(captured(name), compiled=False)
    assert sum(whole.by_line.values()) == whole.flops >= ours.flops


@pytest.mark.parametrize("name", NAMES)
def test_flops_and_bytes_of_kernels_sum_to_xlas(name: str) -> None:
    cap = captured(name)
    answer = jaxlens.cost(cap)
    once = sum(kernel.once for kernel in answer.kernels)
    assert once == pytest.approx(cap.cost["flops"], rel=1e-3, abs=2)
    moved = sum((k.read or 0) + (k.written or 0) for k in answer.kernels)
    assert moved == pytest.approx(cap.cost["bytes accessed"], rel=0.2)


def test_lines_of_the_user_own_what_libraries_do_for_them() -> None:
    for name in ("flax_nnx", "equinox_optax", "diffrax_solve", "numpyro_potential"):
        cost = jaxlens.cost(captured(name))
        assert {line.partition(":")[0] for line in cost.by_line} == {"programs.py"}
        assert cost.findings[0].text.startswith("programs.py:")
    solve = jaxlens.cost(captured("diffrax_solve")).findings[0].text
    assert "(`solution = diffrax.diffeqsolve(`)" in solve
    assert " with one pass of the loop" in solve  # an adaptive step


def nested_constants(jaxpr) -> Iterator[np.ndarray]:
    """Constants of all closed jaxprs nested in a jaxpr."""
    bodies = [jaxpr]
    for _, eqn in all_eqns(jaxpr.jaxpr, revisit_inner_jaxprs=False):
        for value in eqn.params.values():
            several = value if isinstance(value, tuple | list) else (value,)
            bodies += [one for one in several if isinstance(one, jax_core.ClosedJaxpr)]
    seen: set[int] = set()
    for const in (const for body in bodies for const in body.consts):
        if id(const) not in seen:
            seen.add(id(const))
            yield np.asarray(const)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_captured_is_what_jaxs_jaxprs_hold(name: str) -> None:
    f, args = program(name)
    theirs = [(c.shape, c.nbytes) for c in nested_constants(jax.jit(f).trace(*args).jaxpr)]
    ours = captured_of(captured(name), compiled=False).constants
    assert sorted((c.type.shape, c.bytes) for c in ours) == sorted(theirs)
    assert bool(theirs) == (name == "diffrax_solve")  # the tables of its Runge-Kutta method


def test_what_was_folded_is_a_constant_from_that_pass_on() -> None:
    answer = jaxlens.captured(captured("diffrax_solve"))
    dumps = [stage.stage.text.replace("%", " ") for stage in answer.capture.passes]
    assert len(answer.folded) > 5
    for one in answer.folded:
        assert f" {one.id} = " in dumps[one.step - 1]
        assert f" {one.id} = " not in dumps[one.step]
        assert f" {one.constant} = " in dumps[one.step]


@pytest.mark.parametrize("name", ["flax_nnx", "numpyro_potential"])
def test_rungs_are_what_jax_traces(name: str) -> None:
    f, args = program(name)

    def many(g) -> int:
        closed = jax.make_jaxpr(g)(*args)
        return sum(1 for _ in all_eqns(closed.jaxpr, revisit_inner_jaxprs=False))

    first, last = jaxlens.ladder(f, *args).rungs
    assert (first.equations, last.equations) == (many(f.__wrapped__), many(f))
    assert last.forward + len(last.backward) == last.equations
    assert not first.backward


@pytest.mark.parametrize("name", NAMES)
def test_one_device_holds_all_and_the_call_has_a_key_of_all_leaves(name: str) -> None:
    f, args = program(name)
    sharding = jaxlens.sharding(captured(name))
    assert (sharding.devices, sharding.sent, sharding.collectives) == (1, 0, ())
    parts = [part for part in jaxlens.key(jax.jit(f), *args).parts if part.kind == "input"]
    assert len(parts) == len(jax.tree.leaves(args))


@pytest.mark.parametrize("name", NAMES)
def test_the_tape_records_each_equation_once(name: str) -> None:
    f, args = program(name)
    tape = jaxlens.tape(f, *args)
    recorded = Counter(ident for step in tape.steps for ident in step.made)
    assert set(recorded.values()) == {1}
    every = sum(
        1 for _ in all_eqns(jax.jit(f).trace(*args).jaxpr.jaxpr, revisit_inner_jaxprs=False)
    )
    late = every - len(recorded)
    assert 0 <= late < every  # transforms record theirs when the function is done
