"""Ops and opcodes read from the lines of dumps, without a graph."""

import pytest

import jaxlens
from jaxlens.ir.hlo import reader
from jaxlens.ir.hlo.op_lines import OpLines, Ops
from jaxlens.ir.text_store import pack
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
    return OpLines(pack([text]), TRIVIAL).read(0)


def test_ops_are_those_of_the_module():
    found = ops(HEAD + FUSED + ENTRY)
    assert found == ops_of_module(reader.read(HEAD + FUSED + ENTRY))
    said = {("s3", "tanh"), ("s3", "fusion"), ("s5", "custom-call"), ("s6", "custom-call")}
    assert found == Ops(frozenset(said), frozenset({"s3"}))


def test_ops_of_every_dump_are_those_of_its_module():
    f, args = programs.mlp_step()
    dumps = jaxlens.capture(f, *args).passes
    lines = OpLines(dumps[0].stage.packed.among, TRIVIAL)
    for dump in dumps:
        if dump.changed:
            assert dump.stage.packed() == dump.stage.raw
            assert lines.read(dump.index) == ops_of_module(dump.stage.module)


OTHER = """  %a = f32[8]{0} tanh(%x), metadata={op_name="f/_jls3_/tanh"}, b="c"
  %a = f32[8]{0} fusion(%x), calls=%fused, metadata={op_name="a[\\'b\\']/_jls4_/c"}, b={"c":"d"}
  %a = f32[8]{0} tanh(%x), b="metadata={op_name="
  %a = f32[8]{0} tanh(%x), metadata={op_name="a=b;(f/_jls5_/x:f/_jls6_/y)" stack_frame_id=1}
  %a = f32[8]{0} fusion(%x), metadata={op_name="f/_jls7_/x"}, kind=kLoop, calls=%fused
  %a = f32[8]{0} tanh(%x), metadata={op_type="a" op_name="f/_jls8_/tanh"}
  %a = f32[8]{0} tanh(%x), b={c={op_name="f/_jls9_/tanh"}}"""


@pytest.mark.parametrize("line", OTHER.split("\n"))
def test_ops_of_lines_in_other_forms_are_those_of_the_module(line):
    text = HEAD + FUSED + ENTRY.replace("  ROOT", f"{line}\n  ROOT")
    assert ops(text) == ops_of_module(reader.read(text))


@pytest.mark.parametrize(
    "line",
    [
        "  %a = f32[8]{0} tanh(%x), b={\n    1}",
        "  %a = f32[8]{0} tanh(%x), %b = f32[8]{0} tanh(%x)",
        '  %a = f32[8]{0} tanh(%x), b={"c"}, %b = f32[8]{0} tanh(%x)',
        "  // a comment",
        "",
        "}",
        "%b (x: f32[8]) -> f32[8] {",
    ],
)
def test_other_layouts_are_left_to_the_reader(line):
    text = HEAD + ENTRY.replace("  ROOT", f"{line}\n  ROOT")
    assert ops(text) is None


def test_a_text_that_breaks_off_or_has_no_computation_is_left_to_the_reader():
    assert ops(HEAD) is ops(HEAD + ENTRY.partition("\n}")[0]) is None
