"""All three verbs on programs of other libraries, with equation counts compared to JAX."""

import functools
import re

import jax
import pytest
from jax._src.jaxpr_util import all_eqns

import jaxlens
from tests.ir.hlo.test_hlo_oracle import assert_same
from tests.support.model_programs import MARKS, NAMES, program

pytestmark = [pytest.mark.backend, *MARKS]


@functools.cache
def capture(name):
    f, args = program(name)
    return jaxlens.capture(f, *args)


@pytest.mark.parametrize("name", NAMES)
def test_equations_are_counted_as_jax_counts_them(name):
    f, args = program(name)
    traced = jax.jit(f).trace(*args)
    theirs = [
        eqn.primitive.name for _, eqn in all_eqns(traced.jaxpr.jaxpr, revisit_inner_jaxprs=False)
    ]
    ours = [node.opcode for node in capture(name).jaxpr.module.nodes()]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stage", ["hlo", "optimized"])
def test_instructions_are_counted_as_jaxlib_counts_them(name, stage):
    seen = getattr(capture(name), stage)
    same = assert_same(seen.text, name)  # names, opcodes and operands, computation by computation
    assert same == sum(1 for _ in seen.module.nodes())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile"])
def test_every_verb_shows_it(name, verb):
    view = getattr(jaxlens, verb)(capture(name))
    taken = " ".join(str(view).split("\n\n")[0].split())
    assert re.search(r"on cpu, jitted for this look \(as written, it runs .*op by op\)$", taken)
    assert len(str(view)) < 200_000
    assert len(view.html().encode()) < 5_000_000
