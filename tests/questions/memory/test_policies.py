"""JAX's policies of `jax.checkpoint`: by XLA's own sizes, and flops counted by hand."""

import functools
import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

import jaxlens
from jaxlens.questions.memory import checkpoint
from tests.support.paths import run_python

pytestmark = pytest.mark.backend
POLICIES = jax.checkpoint_policies
NAMED = POLICIES.save_only_these_names("hidden")
B, D, H = 512, 16, 32
ARGS = (jnp.ones((D, H)), jnp.ones((H, D))), jnp.ones((B, D))
DEEP = jnp.ones((4, D, D)), jnp.ones((B, D))


def mlp(w, x):
    return (checkpoint_name(jnp.tanh(x @ w[0]), "hidden") @ w[1]).sum()


def layer(x, w):
    hidden = checkpoint_name(jnp.tanh(x @ w), "hidden")
    return x + jnp.sin(hidden @ w.T), None


def scanned(mark, ws, x):
    return (jax.lax.scan(mark(layer), x, ws)[0] ** 2).sum()


def unrolled(mark, ws, x):
    for w in ws:
        x, _ = mark(layer)(x, w)
    return (x**2).sum()


def tried(loss, *args):
    """The ways, by where (one word) and policy."""
    program = jaxlens.capture(jax.grad(loss), *args)
    ways = jaxlens.memory(program, checkpoint=True).tried
    assert [way.why for way in ways] == [""] * len(ways)
    return {(way.name.split(" ")[1] if " " in way.name else "", way.policy): way for way in ways}


def by_hand(loss, *args):
    """Bytes of arguments, results and temporaries in XLA's memory analysis."""
    sizes = jax.jit(jax.grad(loss)).lower(*args).compile().memory_analysis()
    parts = sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.temp_size_in_bytes
    return sum(parts)


def test_flops_that_a_policy_computes_again_are_those_by_hand():
    product, cheap = 2 * B * D * H, 3 * B * H  # x @ w1; the tanh with its derivative at most
    ways = {policy: way for (_, policy), way in tried(mlp, *ARGS).items()}
    again = {policy: way.again for policy, way in ways.items()}
    assert product <= again["nothing_saveable"] <= product + cheap
    assert again["dots_saveable"] <= cheap
    assert again["everything_saveable"] == 0
    hidden = 4 * B * H
    assert ways["save_only_these_names"].named == {"hidden": hidden}
    assert ways["save_only_these_names"].saved == hidden
    assert ways["nothing_saveable"].named == {}


HAND = {
    ("whole", "dots_with_no_batch_dims_saveable"): lambda f: (
        lambda mark, *args: jax.checkpoint(
            functools.partial(f, lambda g: g), policy=POLICIES.dots_with_no_batch_dims_saveable
        )(*args)
    ),
    ("scan's", "dots_saveable"): POLICIES.dots_saveable,
    ("scan's", "everything_saveable"): POLICIES.everything_saveable,
    ("scan's", "save_only_these_names"): NAMED,
}


@pytest.mark.parametrize("where", HAND, ids=" ".join)
def test_a_policy_takes_what_xla_says_of_it_by_hand(where):
    own = HAND[where]
    if where[0] == "whole":
        loss = functools.partial(own(scanned), None)
    else:
        loss = functools.partial(
            scanned, functools.partial(jax.checkpoint, policy=own, prevent_cse=False)
        )
    way = ways_of_the_scan()[where]
    assert way.takes == pytest.approx(by_hand(loss, *DEEP), abs=256)  # tables of pointers


@functools.cache
def ways_of_the_scan():
    return tried(functools.partial(scanned, lambda f: f), *DEEP)


WRAPPERS = {
    "jax": lambda f, **options: jax.checkpoint(f, **options),
    "flax": lambda f, **options: nnx.remat(f, **options),
    "equinox": lambda f, **options: eqx.filter_checkpoint(f, **options),
}


@pytest.mark.parametrize(
    ("loop", "library"), [(unrolled, "jax"), *((scanned, library) for library in WRAPPERS)]
)
def test_a_checkpoint_of_the_program_gets_other_policies_and_none(loop, library):
    mark = functools.partial(WRAPPERS[library], policy=POLICIES.nothing_saveable)
    ways = tried(functools.partial(loop, mark), *DEEP)
    named = functools.partial(WRAPPERS[library], policy=NAMED)
    expected = {
        ("", ""): lambda f: f,
        ("call", "nothing_saveable"): mark,
        ("call", "save_only_these_names"): named,
    }
    for where, other in expected.items():
        hand = by_hand(functools.partial(loop, other), *DEEP)
        assert ways[where].takes == pytest.approx(hand, abs=256), where
    assert ways["", ""].again == 0
    assert ways["call", "nothing_saveable"].again > 4 * 2 * B * D * D
    assert jax.lax.scan_p.bind.__func__ is type(jax.lax.scan_p).bind


def chain(w, x):
    for _ in range(3):
        x = jnp.tanh(jnp.sin(x) @ w)
    return x.sum()


@pytest.mark.parametrize(("equations", "compiled"), [(1, {"nothing_saveable"}), (2_000, None)])
def test_of_a_large_program_what_cannot_help_is_not_compiled(equations, compiled, monkeypatch):
    monkeypatch.setattr(checkpoint, "_LARGE", equations)
    answer = jaxlens.memory(jaxlens.capture(jax.grad(chain), DEEP[0][0], DEEP[1]), checkpoint=True)
    now, policies = answer.facts, {way.policy for way in answer.tried}
    least = next(way for way in answer.tried if way.policy == "nothing_saveable")
    assert least.peak >= 0.98 * now.peak  # on a CPU, which takes the barriers out
    assert policies == compiled or (compiled is None and "everything_saveable" in policies)
    said = "nothing_saveable saves least and lowers nothing: policies that save more"
    assert (said in " ".join(str(answer).split())) == (compiled is not None)


def test_what_is_said_of_the_programs_own_checkpoint_and_of_offloading():
    mark = functools.partial(jax.checkpoint, prevent_cse=False)
    program = jaxlens.capture(jax.grad(functools.partial(scanned, mark)), *DEEP)
    answer = jaxlens.memory(program, checkpoint=True)
    texts = [finding.text for finding in answer.findings]
    again = jaxlens.cost(program).facts.cost.recomputed
    own = next(text for text in texts if text.startswith("Your jax.checkpoint computes "))
    assert f"{again / 1e6:.3g} Mflop again" in own
    assert len(texts) <= 6
    assert all(len(text) <= 300 for text in texts)
    note = next(table.note for table in answer.tables if table.title == "With jax.checkpoint")
    assert "save_and_offload_only_these_names offloads nothing" in note
    assert "No value has a name" not in note
    bare = jaxlens.capture(jax.grad(lambda w: jnp.sin(w).sum()), ARGS[1])
    notes = [table.note for table in jaxlens.memory(bare, checkpoint=True).tables]
    assert any("No value has a name (checkpoint_name)" in note for note in notes)


OFFLOADED = """
import functools, jax, jax.numpy as jnp, jaxlens
from jax.ad_checkpoint import checkpoint_name

def layer(x, w):
    hidden = checkpoint_name(jnp.tanh(x @ w), "hidden")
    return x + jnp.sin(hidden @ w.T), None

loss = lambda ws, x: (jax.lax.scan(layer, x, ws)[0] ** 2).sum()
shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((4, 256, 256), (1024, 256))]
program = jaxlens.capture(jax.grad(loss), *shapes, target="tpu:v5e:2x2")
for way in jaxlens.memory(program, checkpoint=True).tried:
    print(way.policy, way.host)
"""


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_a_tpu_offloads_what_has_a_name():
    said = dict(line.split() for line in run_python(OFFLOADED).splitlines())
    assert said["save_and_offload_only_these_names"] == str(4 * 1024 * 256 * 4)
    assert said["save_only_these_names"] == "0"
