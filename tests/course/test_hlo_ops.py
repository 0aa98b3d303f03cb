"""The page of HLO ops: every example makes its op with the JAX that is installed."""

import html
import re

import jax
import jax.numpy as jnp
import pytest

from jaxlens.course import hlo_ops
from jaxlens.course.hlo_ops import EXAMPLES, example
from jaxlens.errors import OptionError
from jaxlens.ir.glossary import words

OPCODES = [opcode for rows in EXAMPLES.values() for opcode in rows]


@pytest.mark.parametrize("opcode", OPCODES)
def test_an_example_makes_its_op(opcode):
    made = example(opcode)
    assert re.match(rf"\S+ = .+? {re.escape(opcode)}\(", made.instruction), made
    assert made.stage == ("optimized" if opcode in EXAMPLES["Made by XLA's passes"] else "hlo")
    assert "metadata" not in made.instruction


def test_an_instruction_is_what_xla_prints():
    shape = jax.ShapeDtypeStruct((4,), "float32")
    text = jax.jit(lambda x, y: jnp.maximum(x, y)).lower(shape, shape).as_text(dialect="hlo")
    assert f"ROOT {example('maximum').instruction}" in re.sub(r"\{0\}|, metadata=.*", "", text)


def test_each_op_of_the_glossary_is_there_once():
    assert len(OPCODES) == len(set(OPCODES))
    tables = [block.table for block in hlo_ops().document.blocks[1:]]
    shown = [row[0].text for table in tables for row in table.rows]
    assert sorted(shown) == sorted(words("instruction"))
    meanings = {row[0].text: row[1].text for table in tables for row in table.rows}
    assert meanings == {opcode: entry.sentence for opcode, entry in words("instruction").items()}


def test_some_ops_alone():
    view = hlo_ops("dot", "acos")
    text, page = str(view), html.unescape(view.html()).replace("\xa0", " ")
    for said in ("m @ w", "lhs_contracting_dims={1}", "acos"):
        assert said in text
        assert said in page
    assert "gather" not in text


def test_an_op_that_there_is_not():
    with pytest.raises(OptionError, match=r"HLO has no opcode 'maximun'.*maximum"):
        hlo_ops("maximun")
