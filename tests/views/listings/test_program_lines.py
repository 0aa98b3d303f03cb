"""Listings of StableHLO and HLO from real programs: nothing lost, the noise folded, bounded."""

import functools

import jax
import jax.numpy as jnp
import pytest

from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.render.text.lines import line_text
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings import stablehlo as stablehlo_lines

pytestmark = pytest.mark.backend


def step(params, xs):
    def body(carry, x):
        return jnp.tanh(carry @ params["w"] + x), carry.sum()

    last, sums = jax.lax.scan(body, xs[0], xs)
    return jax.lax.cond(last.sum() > 0, jnp.sin, jnp.cos, last), jnp.sort(sums)


@functools.cache
def lowered():
    params = {"w": jax.ShapeDtypeStruct((4, 4), "float32")}
    return jax.jit(step).trace(params, jax.ShapeDtypeStruct((8, 4), "float32")).lower()


@functools.cache
def programs():
    return (
        stablehlo.read(lowered().compiler_ir("stablehlo")),
        hlo.read(lowered().as_text(dialect="hlo"), stage="hlo"),
        hlo.read(lowered().compile().as_text(), stage="optimized"),
    )


def stablehlo_listing(limit=2000):
    return stablehlo_lines.listing(programs()[0], lowered().as_text(), limit=limit)


def shown(listing, full=False):
    return [line_text(line, full) for line in listing.lines]


@pytest.mark.parametrize("index", [1, 2])
def test_every_instruction_stands_in_the_listing_once(index):
    module = programs()[index]
    ids = [line.id for line in hlo_lines.listing(module).lines if line.id]
    assert sorted(ids) == sorted(node.id for node in module.nodes())


def test_metadata_and_layouts_are_folded_and_stay_there():
    listing = hlo_lines.listing(programs()[2])
    plain, full = "\n".join(shown(listing)), "\n".join(shown(listing, full=True))
    assert "metadata=" not in plain
    assert "{1,0}" not in plain
    assert "metadata=" in full
    assert "{1,0}" in full


def test_the_entry_comes_first_and_computations_say_whose_they_are():
    lines = shown(hlo_lines.listing(programs()[2]))
    assert lines[0].startswith("ENTRY main")
    assert any("fused_computation" in line and "// of " in line for line in lines)


def test_stablehlo_names_the_arguments_above_what_jax_prints():
    lines = shown(stablehlo_listing())
    assert lines[:3] == ["// %arg0 = params['w']", "// %arg1 = xs", "module @jit_step {"]
    assert lines[3].startswith("  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<8x")
    assert any(" = stablehlo.while(%iterArg = " in line for line in lines)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_limit_cuts_and_the_rest_is_made_when_looked_at(index):
    def make(limit=2000):
        if index == 0:
            return stablehlo_listing(limit)
        return hlo_lines.listing(programs()[index], limit=limit)

    whole, cut = make(), make(limit=7)
    assert not whole.more
    assert cut.lines == whole.lines[:7]
    assert len(cut.more) == len(whole.lines) - 7
    assert tuple(cut.more) == whole.lines[7:]


def test_lines_by_id_are_those_of_the_listing():
    module = programs()[2]
    by_id = hlo_lines.instructions(module)
    assert len(by_id) == len(list(by_id)) == sum(1 for _ in module.nodes())
    for line in hlo_lines.listing(module).lines:
        if line.id and line.pieces[0].text != "ROOT ":
            assert by_id[line.id].pieces == line.pieces
