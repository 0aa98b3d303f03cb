"""Ops and opcodes read from the lines of dumps, without a graph."""

import pytest

import jaxlens
from jaxlens.ir.hlo import reader
from jaxlens.ir.hlo.op_lines import OpLines
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.links.responsible_pass import ops_of_module
from tests.support import programs

HEAD = 'HloModule m, is_scheduled=true\n\nFileNames\n1 "a.py"\n\n'
FUSED = """%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %t = f32[8]{0} tanh(%p), metadata={op_name="jit(f)/_jls3_/tanh" stack_frame_id=7}
}

"""
ENTRY = """ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0), metadata={op_name="x"}
  %c = (f32[8]{0}, /*index=1*/s32[]) custom-call(%x), custom_call_target="a = b", \
metadata={op_name="jit(f)/_jls5_/a;jit(f)/_jls6_/b" stack_frame_id=2}
  ROOT %f = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused, \
metadata={op_name="jit(f)/_jls3_/tanh"}, backend_config={"a":"b"}
}, execution_thread="main"

"""


def ops(text):
    return {(each.name, each.opcodes, each.fused) for each in OpLines(TRIVIAL).read(text)}


def of_module(text):
    return {(each.name, each.opcodes, each.fused) for each in ops_of_module(reader.read(text))}


def test_ops_are_those_of_the_module():
    found = ops(HEAD + FUSED + ENTRY)
    assert found == of_module(HEAD + FUSED + ENTRY)
    pairs = frozenset({("s3", "fusion"), ("s5", "custom-call"), ("s6", "custom-call")})
    assert ("e", pairs, frozenset({"fused"})) in found


def test_ops_of_every_dump_are_those_of_its_module():
    f, args = programs.mlp_step()
    lines = OpLines(TRIVIAL)
    for dump in jaxlens.capture(f, *args).passes:
        found = lines.read(dump.stage.raw)
        assert found is not None
        named = {each.name: each for each in found}
        assert named == {each.name: each for each in ops_of_module(dump.stage.module)}


@pytest.mark.parametrize(
    "line",
    [
        "  %a = f32[8]{0} tanh(%x), b={\n    1}",
        "  %a = f32[8]{0} tanh(%x), %b = f32[8]{0} tanh(%x)",
        "  // a comment",
    ],
)
def test_other_layouts_are_left_to_the_reader(line):
    text = HEAD + ENTRY.replace("  ROOT", f"{line}\n  ROOT")
    assert OpLines(TRIVIAL).read(text) is None
