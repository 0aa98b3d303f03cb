"""Lines of HLO have the names, types and attributes of their instructions, in any notation."""

import pytest

import jaxlens
from jaxlens.ir.hlo import reader as hlo
from jaxlens.views.listings.hlo import listing, names_of
from jaxlens.views.listings.hlo_pieces import IN_BRACKETS, MARKED, instruction_text
from tests.support.paths import CAPTURES, TEXTS

ODD = (TEXTS / "odd.hlo.txt").read_text().replace("MANY", "many" * 20)


def checked(module, limit=0):
    names = names_of(module)
    for node in module.nodes():
        text = "".join(piece.text for piece in MARKED.pieces(instruction_text(node, names)))
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
