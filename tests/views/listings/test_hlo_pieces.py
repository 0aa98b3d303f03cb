"""Lines of HLO have the names, types and attributes of their instructions, in any notation."""

import pytest

import jaxlens
from jaxlens.ir.hlo import reader as hlo
from jaxlens.views.listings.hlo import listing, names_of
from jaxlens.views.listings.hlo_pieces import IN_BRACKETS, instruction_pieces
from tests.support.paths import CAPTURES

ODD = r"""HloModule odd, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

%add_of (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b), metadata={op_name="x} y" stack_frame_id=3}
}

%long (p.1: (f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2])) -> f32[2] {
  %p.1 = (f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}) parameter(0)
  ROOT %first = f32[2]{0} get-tuple-element(%p.1), index=0, sharding={replicated}
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0:T(128)} parameter(0), metadata={op_name="<b>&\351"}
  %c = f32[] constant(0), metadata={op_name="a, metadata={b" source_file="f.py" source_line=3}
  %l = f32[9]{0} constant({1.25, 2.25, 3.25, 4.25, 5.25, 6.25, 7.25, 8.25, 9.25})
  %s = f32[2]{0} custom-call(%x), custom_call_target="a, metadata={x", metadata={op_name="é"}
  %r = f32[] reduce(%s, /*a*/%c), to_apply=%add_of, metadata={op_name="r"}, backend_config={"a":"b"}
  %w = f32[] reduce(f32[2]{0} %s, f32[] %c), dimensions={0}, to_apply=%add_of
  %i = s32[2]{0} iota(), iota_dimension=0, frontend_attributes={x="1"}, metadata={op_name="i"}
  %u = (f32[], f32[2]{0}) tuple(%r, %x), metadata={op_name="quoted \" and \\"}
  ROOT %out = f32[2]{0} negate(%x), origin={{"x" {0}}}, unknown=MANY, b=[1,2]
}
""".replace("MANY", "many" * 20)


def checked(module, limit=0):
    names = names_of(module)
    for node in module.nodes():
        text = "".join(piece.text for piece in instruction_pieces(node, names))
        assert text.startswith(f"{node.id} ")
        assert f" {node.opcode}(" in text
        assert all(f", {key}=" in text for key in node.attrs if key not in IN_BRACKETS.values())
    listed = listing(module, limit, brief=True)
    assert len(list(listed.more)) == len(listed.more)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_the_programs_of_records(path):
    capture = jaxlens.load(path)
    for stage in (capture.hlo, capture.optimized, *(dump.stage for dump in capture.passes[:3])):
        checked(stage.module)
        checked(stage.module, 7)


@pytest.mark.parametrize("stamp", ["", "_jls7/"])
def test_lines_that_are_not_printed_as_most(stamp):
    module = hlo.read(ODD.replace('op_name="', f'op_name="{stamp}'))
    assert not module.unknown
    checked(module)
