"""Coverage of links on real programs, and the fates of known equations."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxlens
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.links.call_stacks import equation_transforms
from jaxlens.links.name_stack import transforms
from jaxlens.views.links import weave
from tests.support import programs
from tests.support.model_programs import LIBRARY_WARNINGS, captured
from tests.support.paths import ROOT, python

pytestmark = [pytest.mark.backend, *LIBRARY_WARNINGS, pytest.mark.reads_jax]
BENCH = ROOT / "tests" / "bench" / "coverage.py"
LEAST = {"conv_fft": 0.85}


@pytest.mark.parametrize("name", [*programs.SMALL, *programs.MODELS])
def test_nearly_every_instruction_and_equation_is_linked(name) -> None:
    coverage = captured(name).links.coverage()
    assert coverage.counted[1] == sum(1 for _ in captured(name).jaxpr.module.nodes())
    assert coverage.instructions >= LEAST.get(name, 0.95), coverage.missing
    assert coverage.equations >= LEAST.get(name, 0.95), coverage.missing
    assert all(missing.why for missing in coverage.missing)


def test_a_program_over_eight_devices_is_linked_too() -> None:
    done = python(BENCH, "--json", "sharded_matmul")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)[0]
    assert row["counted"][0] > 5
    assert row["instructions"] >= 0.95, row["missing"]
    assert row["equations"] >= 0.95, row["missing"]


def known(x, w):
    unread = jnp.sin(x)  # noqa: F841 - an equation that nothing reads
    first = x * 2
    second = x * 2
    table = jnp.ones(8) * 3 + 1
    chain = jnp.exp(jnp.tanh(first) + second) * table
    return jax.lax.stop_gradient(chain) @ w


@functools.cache
def fates():
    looked = jaxlens.capture(known, jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert looked.passes
    nodes = list(looked.jaxpr.module.nodes())
    return looked, nodes, [looked.links.fate(node.id) for node in nodes]


def fates_of(opcode):
    """The fates of the equations of one primitive, in program order."""
    _, nodes, found = fates()
    return [fate for node, fate in zip(nodes, found, strict=True) if node.opcode == opcode]


def test_a_dead_equation_never_reaches_hlo() -> None:
    (fate,) = fates_of("sin")
    assert (fate.name, fate.by, fate.into) == ("dead", "lowering", ())
    assert fate.sentence == "Dead: no result depends on it, so JAX did not lower it."


def test_of_two_equal_equations_one_is_merged_by_cse() -> None:
    first, second = fates_of("mul")[:2]
    assert (first.name, first.by) == ("fused", "fusion")
    assert (second.name, second.by, second.partners) == ("merged", "cse", (first.id,))
    assert second.into == first.into
    looked, _, _ = fates()
    assert looked.passes[second.index].name == "cse"


def test_what_lives_on_under_the_name_of_another_is_linked() -> None:
    looked, _, _ = fates()
    first, second = (fate.id for fate in fates_of("mul")[:2])
    links = looked.links.links(second, "optimized", "jaxpr")
    assert {link.head for link in links} <= set(looked.links.forward(first, "optimized"))
    assert {link.how for link in links} == {"inferred"}
    looked = captured("mlp_step")  # XLA puts a transpose into the product that it reads
    products = [n.id for n in looked.jaxpr.module.nodes() if n.opcode == "dot_general"]
    assert all(looked.links.forward(id, "kernels") for id in products)


def test_constants_are_folded() -> None:
    constant = [*fates_of("broadcast_in_dim")[:1], fates_of("mul")[2]]
    assert {fate.name for fate in constant} == {"folded"}
    assert {fate.by for fate in constant} == {"conversion to HLO"}


def test_a_chain_is_fused_into_one_kernel_by_the_fusion_pass() -> None:
    chain = [*fates_of("tanh"), *fates_of("exp"), fates_of("add")[1]]
    assert {(fate.name, fate.by) for fate in chain} == {("fused", "fusion")}
    (home,) = {fate.into for fate in chain}
    looked, _, _ = fates()
    assert {kernel.name for kernel in looked.kernels} >= set(home)
    assert looked.passes[chain[0].index].name == "fusion"


def test_what_changes_nothing_is_dropped_by_the_lowering() -> None:
    (fate,) = fates_of("stop_gradient")
    assert (fate.name, fate.by) == ("dropped", "lowering")
    assert "hands its operand on unchanged (f32[8,8])" in fate.sentence


@pytest.mark.parametrize(
    ("f", "names"),
    [
        (lambda x: x * 1.0 + 0.0, {"dropped"}),
        (lambda x: jnp.negative(-x), {"rewritten"}),
        (lambda x: (x**1).reshape(2, 4).reshape(8) / 1.0, {"dropped", "rewritten"}),
        (lambda x: x + jnp.zeros(8) * 3, {"dropped", "folded"}),
        (lambda x: (x * 1.0, x + 0.0), {"dropped"}),
    ],
)
def test_where_nothing_is_left_to_compute_every_fate_is_known(f, names) -> None:
    """No instruction is left that an id could be on."""
    cap = jaxlens.capture(jax.jit(f), jax.ShapeDtypeStruct((8,), "float32"))
    assert {fate.name for fate in cap.links.fates().values()} == names
    assert cap.links.coverage().equations == 1.0


def test_a_product_is_kept() -> None:
    (fate,) = fates_of("dot_general")
    assert fate.name == "kept"
    assert len(fate.into) == 1


def test_a_computed_constant_is_folded_by_the_pass_that_folds() -> None:
    def f(x):
        return x + jnp.cumsum(jnp.arange(4.0))[1]

    looked = jaxlens.capture(f, jnp.float32(1))
    assert looked.passes
    found = [f for f in looked.links.fates().values() if f.name == "folded"]
    assert any(fate.by == "constant_folding" for fate in found)


def test_calls_and_loops_have_fates_too() -> None:
    looked = captured("while_cond")
    by_opcode = {n.opcode: looked.links.fate(n.id) for n in looked.jaxpr.module.nodes()}
    assert by_opcode["while"].name == "loop"
    assert by_opcode["while"].into[0].startswith("while")
    assert by_opcode["cond"].name == "loop"
    looked = captured("attention")
    calls = [looked.links.fate(n.id) for n in looked.jaxpr.module.nodes() if n.opcode == "jit"]
    assert {(fate.name, fate.by) for fate in calls} == {("inlined", "call-inliner")}


def test_looking_at_fates_compiles_once() -> None:
    looked = jaxlens.capture(known, jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert looked.links.fate("e1").by == "fusion"
    assert looked.links.coverage().equations == 1
    assert [timing.step for timing in looked.times].count("compile") == 1


def test_every_backward_equation_names_the_forward_text_it_came_from() -> None:
    looked = captured("mlp_step")
    code = Path(programs.__file__).read_text().splitlines()
    texts = set()
    for node in looked.jaxpr.module.nodes():
        if "transpose" in transforms(node.scope):
            span = node.owner
            assert span is not None
            assert 0 <= span.column < span.end_column
            texts.add(code[span.line - 1][span.column : span.end_column])
            assert equation_transforms(looked.jaxpr.module)[node.id] == ("transpose", "jvp")
    assert any(text.startswith('x @ params["w1"]') for text in texts)
    assert any(text.endswith("- y) ** 2") or "** 2" in text for text in texts)
    assert not any("value_and_grad" in text for text in texts)


def test_from_python_to_the_kernel_and_back() -> None:
    looked, nodes, _ = fates()
    links = looked.links
    line = str(next(node for node in nodes if node.opcode == "tanh").owner)
    equations = links.forward(line, "jaxpr")
    assert {node.opcode for node in nodes if node.id in equations} >= {"tanh", "exp", "add"}
    kernels = links.forward(line, "kernels")
    assert kernels
    assert links.forward(line, "llvm") == kernels == links.forward(line, "asm")
    assert line in links.back(kernels[0], "source")
    tanh = next(node.id for node in nodes if node.opcode == "tanh")
    (op,) = links.forward(tanh, "stablehlo")
    assert links.back(op, "jaxpr") == (tanh,)
    assert links.links(tanh, "hlo", "jaxpr")[0].how == "stamped"
    for index, stage in enumerate(looked.passes):
        if stage.changed:
            assert links.forward(tanh, f"passes[{index}]")


def square(x):
    return x * x + 1


def test_calls_of_one_function_stay_apart() -> None:
    once = jax.jit(square)

    def f(x, y):
        a = once(x)
        b = once(y)
        return a, jnp.sin(b)

    looked = jaxlens.capture(f, jnp.ones(8), jnp.ones(8))
    web = weave(looked.links, ("source", "jaxpr", "stablehlo", "hlo", "optimized", "kernels"))
    calls = [n for n in looked.jaxpr.module.nodes() if n.opcode == "jit"]
    lines = [str(call.owner) for call in calls]
    assert len(set(lines)) == 2
    first, second = (set(web.atoms["jaxpr"][call.id]) for call in calls)
    assert first
    assert second
    assert not first & second
    outer = [set(web.calls[line]) for line in lines]
    inlined = set(web.atoms["jaxpr"][calls[0].id]) - set(web.atoms["stablehlo"]["s0"][:1])
    assert inlined <= outer[0]
    assert not inlined & outer[1]
    (inside,) = {str(n.owner) for n in looked.jaxpr.module.nodes() if n.opcode == "mul"}
    assert inlined <= set(web.lines[inside])


def test_the_web_says_what_the_links_say() -> None:
    looked = captured("attention")
    web = weave(looked.links, ("jaxpr", "stablehlo", "hlo", "optimized", "kernels"))
    for node in looked.jaxpr.module.nodes():
        mine = set(web.atoms["jaxpr"][node.id])
        for stage in ("stablehlo", "hlo", "optimized", "kernels"):
            lit = {id for id, atoms in web.atoms[stage].items() if mine & set(atoms)}
            assert lit == set(looked.links.forward(node.id, stage))
    assert set(web.fates) == set(web.atoms["jaxpr"])


def test_a_web_lowers_and_compiles_nothing_that_is_not_shown() -> None:
    looked = jaxlens.capture(known, jnp.ones((8, 8)), jnp.ones((8, 8)))
    web = weave(looked.links, ("source", "jaxpr"))
    assert set(web.atoms) == {"jaxpr"}
    assert not web.fates
    assert [timing.step for timing in looked.times] == ["trace"]
    weave(looked.links, ("jaxpr", "stablehlo", "hlo"))
    assert "compile" not in {timing.step for timing in looked.times}


def small_gpt():
    return programs.gpt_step(layers=1, width=16, length=8, vocab=16)


def every_result(looked):
    """A function that gives the first result of each equation of the program itself, by id."""
    closed = looked.driver.traced.jaxpr
    main = next(iter(bodies(opened(closed)).values()))
    kept = {
        id: eqn.outvars[0]
        for id, eqn in zip(main.ids, closed.jaxpr.eqns, strict=True)
        if eqn.outvars and type(eqn.outvars[0]).__name__ != "DropVar"
    }
    whole = closed.jaxpr.replace(outvars=list(kept.values()), debug_info=None)
    run = jaxpr_as_fun(closed.replace(jaxpr=whole))
    return lambda *args: dict(zip(kept, run(*args), strict=True)), closed.jaxpr.invars


@pytest.mark.parametrize("program", [lambda: (known, (jnp.ones((8, 8)),) * 2), small_gpt])
def test_merged_equations_are_equal_and_folded_ones_constant(program) -> None:
    f, args = program()
    looked = jaxlens.capture(f, *args)
    assert looked.passes
    results, inputs = every_result(looked)
    rng = np.random.default_rng(0)

    def some(shape, dtype):
        values = rng.uniform(0.5, 2, shape) if dtype.kind == "f" else rng.integers(0, 5, shape)
        return jnp.asarray(values, dtype)

    first, second = (results(*[some(v.aval.shape, v.aval.dtype) for v in inputs]) for _ in range(2))
    names = set()
    for id, fate in looked.links.fates().items():
        if id not in first:
            continue
        names.add(fate.name)
        if fate.name == "folded":
            assert np.array_equal(first[id], second[id]), fate
        if fate.name == "merged" and fate.partners[0] in first:
            for run in (first, second):
                assert np.array_equal(run[id], run[fate.partners[0]]), fate
    assert names >= {"merged", "folded", "fused"}
