"""Listings of StableHLO and HLO from real programs: nothing lost, the noise folded, bounded."""

import functools

import jax
import jax.numpy as jnp
import pytest

from jaxlens.ir import hlo, stablehlo
from jaxlens.render import hlo_lines, stablehlo_lines
from jaxlens.render.text_listing import line_text

pytestmark = pytest.mark.backend


def step(params, xs):
    def body(carry, x):
        return jnp.tanh(carry @ params["w"] + x), carry.sum()

    last, sums = jax.lax.scan(body, xs[0], xs)
    return jax.lax.cond(last.sum() > 0, jnp.sin, jnp.cos, last), jnp.sort(sums)


@functools.cache
def programs():
    params = {"w": jax.ShapeDtypeStruct((4, 4), "float32")}
    lowered = jax.jit(step).trace(params, jax.ShapeDtypeStruct((8, 4), "float32")).lower()
    return (
        stablehlo.read(lowered.compiler_ir("stablehlo")),
        hlo.read(lowered.as_text(dialect="hlo"), stage="hlo"),
        hlo.read(lowered.compile().as_text(), stage="optimized"),
    )


def shown(listing, full=False):
    return [line_text(line, full) for line in listing.lines]


def test_every_op_stands_in_the_listing_once_or_on_the_line_of_its_parent():
    module = programs()[0]
    listing = stablehlo_lines.listing(module)
    ids = {line.id for line in listing.lines if line.id}
    missing = {node.id for node in module.nodes()} - ids
    applied = sum(" applies " in line for line in shown(listing))
    assert len(missing) == applied > 0


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


def test_stablehlo_names_the_arguments_and_returns():
    lines = shown(stablehlo_lines.listing(programs()[0]))
    assert lines[:2] == ["// %arg0 = params['w']", "// %arg1 = xs"]
    assert lines[2] == "func @main(%arg0: f32[4,4], %arg1: f32[8,4]) {"
    assert any(line.strip().startswith("%") and " = while " in line for line in lines)
    assert any(line.strip().startswith("cond(%iterArg") for line in lines)
    assert "  return %" in "\n".join(lines)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_limit_cuts_and_says_what_is_left(index):
    module = programs()[index]
    make = stablehlo_lines.listing if index == 0 else hlo_lines.listing
    whole, cut = make(module), make(module, limit=7)
    assert whole.note == ""
    assert cut.lines == whole.lines[:7]
    assert cut.note.startswith(f"{len(whole.lines) - 7:,} more lines: cap.")


def test_lines_by_id_are_those_of_the_listing():
    module = programs()[2]
    by_id = hlo_lines.instructions(module)
    assert len(by_id) == len(list(by_id)) == sum(1 for _ in module.nodes())
    for line in hlo_lines.listing(module).lines:
        if line.id and line.pieces[0].text != "ROOT ":
            assert by_id[line.id].pieces == line.pieces
