"""The constants lens on hand-written dumps and on records, byte by byte."""

from pathlib import Path

import pytest

from jaxlens.captures import load
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span, Type
from jaxlens.program.closed_over import alarm, closed_over
from jaxlens.questions.constants.facts import Captured, folds
from jaxlens.questions.constants.facts import facts as facts_of
from jaxlens.questions.constants.report import report
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support import fixed_captures as fixed
from tests.support.documents import compile as document
from tests.support.paths import CAPTURES

BEFORE = """HloModule m

ENTRY main {
  x = f32[100] parameter(0)
  i = s32[100] iota(), iota_dimension=0
  c = f32[100] convert(i)
  two = f32[] constant(2)
  b = f32[100] broadcast(two), dimensions={}
  table = f32[100] multiply(c, b)
  ROOT out = f32[100] add(x, table)
}
"""
AFTER = """HloModule m

ENTRY main {
  x = f32[100] parameter(0)
  constant.1 = f32[100] constant({...})
  ROOT out = f32[100] add(x, constant.1)
}
"""


def array(name: str, n: int, held: str = "global", **more) -> Constant:
    place = Span("cell 1", 4)
    return Constant(name, Type("f32", (n,)), 4 * n, place, held, "f", Span("cell 1", 2), **more)


def test_a_fold_is_found_between_the_dumps() -> None:
    dumps = (
        fixed.dump(0, "", "before_optimizations", BEFORE, False),
        fixed.dump(1, "simplify", "constant_folding", AFTER),
        fixed.dump(2, "simplify", "algsimp", AFTER, False),
    )
    (one,), missing = folds(dumps)
    assert not missing
    assert (one.id, one.opcode, one.constant, one.bytes) == ("table", "multiply", "constant.1", 400)
    assert folds(dumps[::2]) == ((), "")  # no folding pass among them


def test_the_sentence_on_one_array_and_on_several() -> None:
    one = Captured((array("w", 1000, reads=3),))
    assert report(one).findings[0].text == (
        "One array is closed over, `w` (f32[1000], 4 kB), a global of `f` (cell 1:2), first read "
        "at cell 1:4, read 3 times: pass it as an argument, and its values are no part of the "
        "program."
    )
    several = Captured((array("w", 900), array("m.v", 100, "attribute")))
    words = report(several).findings[0].text
    assert words.startswith("2 arrays of 4 kB are closed over, 90% of it `w`")
    small = Captured((array("w", 3),))
    assert "argument" not in report(small).findings[0].text
    thing = Captured((array("m.v", 5000, "attribute"),))
    assert "pass the object, as a pytree," in report(thing).findings[0].text


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_records(path: Path) -> None:
    taken = load(path)
    facts = facts_of(taken)
    assert facts.bytes == sum(c.bytes for c in taken.constants)
    assert not facts.missing
    for one in facts.folded:  # each is a constant after the pass, and was none before
        before, after = (taken.passes[n].stage.module for n in (one.step - 1, one.step))
        assert {n.opcode for n in after.nodes() if n.id == one.constant} == {"constant"}
        assert {n.opcode for n in before.nodes() if n.id == one.id} == {one.opcode}
    assert text(document(taken, OPTIONS["compile"](captured=True)))
    assert alarm(closed_over(taken)) == ()
