"""A stamped program equals the program without stamps, and bare JAX's."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo

import jaxlens
from jaxlens import compat
from jaxlens.ir.stamps import plain as plain_scope
from jaxlens.stages.session import compiling
from jaxlens.stages.trace import stamp
from tests.support import programs
from tests.support.model_programs import LIBRARY_WARNINGS, require
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, *LIBRARY_WARNINGS, pytest.mark.reads_jax]
NAMES = [
    *programs.SMALL,
    *(pytest.param(name, marks=pytest.mark.models) for name in programs.MODELS),
    "gpt_step",
]
STAGES = ("jaxpr", "stablehlo", "hlo", "optimized")


@functools.cache
def program(name):
    require(name)
    by_name = {**programs.SMALL, **programs.MODELS, "gpt_step": lambda: programs.gpt_step(layers=1)}
    return by_name[name]()


def look(f, args):
    """One line for all looks, so that their frames are equal."""
    taken = jaxlens.capture(f, *args)
    assert taken.passes
    for stage in STAGES:
        assert taken.stage(stage).text
    return taken


@functools.cache
def stamped(name):
    jax.clear_caches()
    return look(*program(name))


@functools.cache
def unstamped(name):
    """What the same look gave before there were stamps."""
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        compiling.forget()  # or the compile of the stamped program serves
        patch.setattr(compat, "named_last", lambda: None)
        patch.setattr(stamp, "ops", lambda done, ids: ())
        taken = look(*program(name))
    assert "_jl" not in taken.optimized.raw
    return taken


def nodes(taken, stage):
    return list(taken.stage(stage).module.nodes())


def fingerprint(text):
    return _hlo.hlo_module_from_text(text).to_string(_hlo.HloPrintOptions.fingerprint())


@pytest.mark.parametrize("name", NAMES)
def test_xla_makes_the_same_program(name):
    f, args = program(name)
    bare = jax.jit(f).lower(*args).compile()
    ours = stamped(name)
    assert fingerprint(ours.driver.executable.as_text()) == fingerprint(bare.as_text())
    dumped = fingerprint(unstamped(name).optimized.raw)
    assert fingerprint(ours.optimized.raw) == fingerprint(ours.optimized.text) == dumped
    costs = bare.cost_analysis()
    assert ours.cost == {key: costs[key] for key in sorted(costs)}
    mine = jax.tree.leaves(ours.driver.executable(*args))
    theirs = jax.tree.leaves(bare(*args))
    assert [np.asarray(x).tobytes() for x in mine] == [np.asarray(x).tobytes() for x in theirs]


@pytest.mark.parametrize("name", NAMES)
def test_nodes_are_what_they_are_without_stamps(name):
    """XLA joins names of merged instructions, and may join two that would have been one."""
    for stage in STAGES:
        with_, without = nodes(stamped(name), stage), nodes(unstamped(name), stage)
        assert [n.id for n in with_] == [n.id for n in without]
        pairs = list(zip(with_, without, strict=True))
        assert [n for n, m in pairs if m.owner and n.owner != m.owner] == []
        scopes = [[set(node.scope.split(";")) for node in pair] for pair in pairs]
        odd = [(one, other) for one, other in scopes if one != other]
        assert len(odd) <= len(with_) // 200, odd


@pytest.mark.parametrize("name", NAMES)
def test_no_text_shows_a_stamp(name):
    ours = stamped(name)
    texts = [ours.stage(stage).text for stage in (*STAGES, "llvm", "asm")]
    texts += [one.stage.text for one in ours.passes] + [ours.buffers]
    assert not [text for text in texts if "_jl" in text]
    for stage in (ours.hlo, ours.optimized, ours.passes[-1].stage):
        assert "_jls" in stage.raw
        for node in stage.module.nodes():
            assert "_jl" not in f"{node.scope} {node.text} {dict(node.attrs)}"


@pytest.mark.parametrize("name", NAMES)
def test_early_texts_are_those_of_bare_jax(name):
    ours, theirs = stamped(name), unstamped(name)
    assert ours.jaxpr.text == theirs.jaxpr.text
    assert ours.stablehlo.text == theirs.stablehlo.text
    assert [one.changed for one in ours.passes] == [one.changed for one in theirs.passes]
    assert [one.stage.title for one in ours.passes] == [one.stage.title for one in theirs.passes]


@pytest.mark.parametrize("name", NAMES)
def test_every_op_reads_its_own_id_in_hlo(name):
    ours = stamped(name)
    ops = {node.id: node for node in nodes(ours, "stablehlo")}
    named = {ident for n in nodes(ours, "hlo") for path in n.stamps for ident in path}
    assert named <= set(ops)
    for node in nodes(ours, "hlo"):
        if node.opcode in ("parameter", "constant", "tuple", "get-tuple-element"):
            continue
        if not node.stamps:
            assert node.opcode == "broadcast"  # of a constant, which XLA makes anew
            assert not node.scope
    for opcode in ("dot_general", "tanh", "while", "fft", "convolution", "sine"):
        theirs = opcode.replace("dot_general", "dot")
        made = [n for n in nodes(ours, "hlo") if n.opcode == theirs]
        asked = [ident for ident, op in ops.items() if op.opcode == f"stablehlo.{opcode}"]
        own = {path[-1] for n in made for path in n.stamps}
        assert own == set(asked), opcode


@pytest.mark.parametrize("name", NAMES)
def test_ops_name_the_equations_that_made_them(name):
    ours = stamped(name)
    eqns = {node.id: node for node in nodes(ours, "jaxpr")}
    found = 0
    for op in nodes(ours, "stablehlo"):
        for path in op.stamps:
            assert set(path) <= set(eqns)
            found += 1
            eqn = eqns[path[-1]]
            if op.opcode in ("stablehlo.dot_general", "stablehlo.tanh", "stablehlo.fft"):
                assert eqn.opcode == op.opcode.removeprefix("stablehlo.")
                assert eqn.spans[:1] == op.spans[:1]
        assert op.stamps or op.opcode == "stablehlo.constant" or "/" not in op.scope, op
    assert found


def test_an_inlined_call_gives_a_path_for_each_call():
    @jax.jit
    def inner(x):
        return jnp.tanh(x) * 2

    def f(x):
        return inner(x) + inner(x + 1) + jnp.sin(x) * 0.1

    taken = look(f, (jnp.ones(5),))
    ops = {node.id: node for node in nodes(taken, "stablehlo")}
    calls = [ident for ident, op in ops.items() if op.opcode == "func.call"]
    (tanh,) = (ident for ident, op in ops.items() if op.opcode == "stablehlo.tanh")
    paths = {path for n in nodes(taken, "optimized") for path in n.stamps if n.opcode == "tanh"}
    assert paths == {(call, tanh) for call in calls}


def test_merged_instructions_name_all_and_keep_their_frames():
    taken = stamped("mlp_step")
    ops = {node.id: node for node in nodes(taken, "stablehlo")}
    merged = [n for n in nodes(taken, "hlo") if n.opcode == "multiply" and len(n.stamps) == 2]
    pairs = [(node, *(ops[path[-1]] for path in node.stamps)) for node in merged]
    equal = [row for row in pairs if (row[1].scope, row[1].spans) == (row[2].scope, row[2].spans)]
    assert equal  # a literal that is broadcast, and the multiplication by it
    for node, one, _ in equal:  # though XLA before jaxlib 0.12 keeps no frames of two
        assert (node.scope, node.spans) == (one.scope, one.spans)


def test_an_earlier_compile_or_look_hides_nothing():
    def f(x):
        return jnp.tanh(x @ x).sum()

    x = jnp.ones((6, 6))
    g = jax.jit(f)
    g(x)
    jax.jit(f).lower(x).compile()
    first, again = look(g, (x,)), look(g, (x,))
    for stage in ("stablehlo", "hlo", "optimized"):
        found = [node.stamps for node in nodes(first, stage)]
        assert any(found)
        assert [node.stamps for node in nodes(again, stage)] == found


def test_scopes_of_the_users_print_unchanged():
    def f(x, w):
        with jax.named_scope("_jls3_"):
            x = jnp.tanh(x @ w)
        with jax.named_scope("a/_jle1_b"), jax.named_scope("_jl0s4_"):
            return jnp.sin(x).sum()

    args = jnp.ones((3, 3)), jnp.ones((3, 3))
    taken = look(f, args)
    bare = jax.jit(f).lower(*args)
    assert not any(node.stamps for node in nodes(taken, "stablehlo"))  # no equation is named
    scopes = {node.scope for node in nodes(taken, "stablehlo")}
    assert {"jit(f)/_jls3_/tanh", "jit(f)/a/_jle1_b/_jl0s4_/sin"} <= scopes
    for stage in ("hlo", "optimized"):
        assert {"jit(f)/_jls3_/tanh", "jit(f)/a/_jle1_b/_jl0s4_/sin"} & {
            node.scope for node in nodes(taken, stage)
        }
        ids = {n.id for n in nodes(taken, "stablehlo")}
        assert {i for n in nodes(taken, stage) for path in n.stamps for i in path} <= ids
    (tanh,) = (n for n in nodes(taken, "hlo") if n.opcode == "tanh")
    (op,) = (n for n in nodes(taken, "stablehlo") if n.opcode == "stablehlo.tanh")
    assert tanh.stamps == ((op.id,),)
    assert 'op_name="jit(f)/_jls3_/tanh"' in taken.hlo.text
    assert fingerprint(taken.optimized.raw) == fingerprint(bare.compile().as_text())


@pytest.mark.parametrize(
    "scope", ['a"b', "x;y;x", "n\nl", "s//", "/(t", "jvp(", "é@z", "back\\slash"]
)
def test_any_scope_comes_out_as_it_went_in(scope):
    def f(x):
        def g(x):
            with jax.named_scope(scope):
                return jax.lax.fori_loop(0, 3, lambda _, c: c * jnp.sin(c), jnp.tanh(x * 0.5)).sum()

        return jax.value_and_grad(g)(x)

    with pytest.MonkeyPatch.context() as patch:
        taken = []
        for stamps in (True, False):
            if not stamps:
                patch.setattr(compat, "named_last", lambda: None)
                patch.setattr(stamp, "ops", lambda done, ids: ())
            taken.append(look(f, (jnp.ones(4),)))
    for stage in ("stablehlo", "hlo", *(["optimized"] if "@" not in scope else [])):
        ours, theirs = nodes(taken[0], stage), nodes(taken[1], stage)
        assert any(node.stamps for node in ours)
        assert [(n.id, n.scope, n.spans) for n in theirs] == [
            (n.id, n.scope, m.spans and n.spans) for n, m in zip(ours, theirs, strict=True)
        ]


def test_a_function_called_like_a_stamp():
    def _jls3_(x):
        return jnp.tanh(x) + 1

    named = jax.jit(_jls3_)
    taken = look(lambda x: named(x) * 2, (jnp.ones(3),))
    assert any("jit(_jls3_)" in node.scope for node in nodes(taken, "stablehlo"))
    assert any("jit(_jls3_)" in node.scope for node in nodes(taken, "hlo"))
    assert "@_jls3_" in taken.stablehlo.text


def test_kernels_of_pallas_hold_no_stamp():
    pallas = pytest.importorskip("jax.experimental.pallas")

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.tanh(x_ref[...]) + 1

    def f(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(kernel, out_shape=shape, interpret=True)(x * 2)

    traced = jax.jit(f).trace(jnp.ones((8, 128)))
    (call,) = (e for e in traced.jaxpr.jaxpr.eqns if e.primitive.name == "pallas_call")
    body = call.params["jaxpr"]
    before = [eqn.source_info for eqn in body.eqns]
    with stamp.stamped(traced.jaxpr) as ids:
        assert ids
        assert [eqn.source_info for eqn in body.eqns] == before
    taken = look(f, (jnp.ones((8, 128)),))
    assert fingerprint(taken.optimized.raw) == fingerprint(
        jax.jit(f).lower(jnp.ones((8, 128))).compile().as_text()
    )


def test_kernels_of_pallas_are_named_for_a_tpu_as_without_stamps():
    """libtpu names a kernel by the part of its op_name before the last."""
    pallas = pytest.importorskip("jax.experimental.pallas")

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def plain(x):
        return pallas.pallas_call(kernel, out_shape=x, grid=(1,))(x)

    def named(x):
        return pallas.pallas_call(kernel, out_shape=x, grid=(1,), name="mine")(x)

    def f(x):
        looped = jax.lax.fori_loop(0, 3, lambda _, v: plain(v), named(plain(x)))
        return jax.jit(plain)(looped) + jax.jit(named)(looped)

    def parts(lowered):
        text = lowered.as_text(dialect="hlo", debug_info=True)
        names = re.findall(r'tpu_custom_call.*op_name="([^"]*)"', text)
        return [(plain_scope(name), name.split("/")[-2:]) for name in names]

    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    tpu = {"lowering_platforms": ("tpu",)}
    bare = parts(jax.jit(f).trace(shape).lower(**tpu))
    lowered, ids = stamp.lowered(jax.jit(f).trace(shape), lambda traced: traced.lower(**tpu))
    stamp.ops(lowered, ids)
    ours = parts(lowered)
    assert [scope for scope, _ in ours] == [scope for scope, _ in bare]
    mine, first = ["mine", "pallas_call"], ["jit(f)", "pallas_call"]
    assert [last for _, last in bare][2:] == [mine, first, mine]
    (outer, _), inner, *others = [last for _, last in ours]
    assert outer in ("closed_call", "eval_jaxpr")  # by jax's version
    # As XLA inlines it.
    assert [inner, *others] == [["jit(plain)", "pallas_call"], mine, first, mine]


SHARDED = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxlib import _hlo
import jaxlens

mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
put = lambda value, *axes: jax.device_put(value, NamedSharding(mesh, P(*axes)))
args = put(jnp.ones((64, 32)), "x", "y"), put(jnp.ones((32, 16)), "y", None)

def f(a, b):
    return jnp.tanh(a @ b).sum(0)

bare = jax.jit(f).lower(*args).compile()
taken = jaxlens.capture(f, *args)
show = lambda text: _hlo.hlo_module_from_text(text).to_string(_hlo.HloPrintOptions.fingerprint())
assert show(taken.optimized.raw) == show(bare.as_text())
costs = bare.cost_analysis()
assert taken.cost == {key: costs[key] for key in sorted(costs)}
assert np.asarray(taken.driver.executable(*args)).tobytes() == np.asarray(bare(*args)).tobytes()
ops = {node.id: node for node in taken.stablehlo.module.nodes()}
for node in taken.optimized.module.nodes():
    if node.opcode in ("dot", "tanh", "all-reduce"):
        assert node.stamps, node.text
        assert all(ident in ops for path in node.stamps for ident in path)
assert "all-reduce" in taken.optimized.text
assert "_jl" not in taken.optimized.text
"""


def test_a_matmul_over_eight_devices():
    run_python(SHARDED)
