"""What `%%compile` and `%%hlo` show by default and for each option, as whole texts."""

import pytest

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Verdict
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support import documents
from tests.support.documents import approved
from tests.support.fixed_captures import FixedDriver, capture

RUN = Run((0.002, 0.001, 0.004), 1, "wall clock, block_until_ready", None)


def compiled(lacks="", run=None, **options):
    made = OPTIONS["compile"](**options)
    return documents.compile(capture(*lacks.split()), made, run)


def hlo(lacks="", **options):
    return documents.hlo(capture(*lacks.split()), **options)


VIEWS = {
    "compile": compiled,
    "compile.a_kernel": lambda: compiled(kernel="max_fusion"),
    "compile.a_library_call": lambda: compiled(kernel="dot.1"),
    "compile.a_kernels_assembly": lambda: compiled(kernel="gt_fusion", asm=True),
    "compile.assembly": lambda: compiled(asm=True),
    "compile.times": lambda: compiled(times=True),
    "compile.why": lambda: compiled(why=True),
    "compile.memory": lambda: compiled(memory=True),
    "compile.cost_of_a_run": lambda: compiled(cost=True, run=RUN),
    "compile.roofline": lambda: compiled(roofline="h100"),
    "compile.lacks": lambda: compiled("kernels memory cost"),
    "compile.full": lambda: compiled(full=True),
    "hlo": hlo,
    "hlo.fusion": lambda: hlo(fusion=True),
    "hlo.fusion_in_full": lambda: hlo(fusion=True, full=True),
    "hlo.stage": lambda: hlo(stage="optimized"),
    "hlo.diff": lambda: hlo(diff=("hlo", "optimized")),
    "hlo.a_pass": lambda: hlo(pass_name="fusion"),
    "hlo.passes": lambda: hlo(passes=True),
    "hlo.lacks": lambda: hlo("optimized passes"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_reads_as_approved(name):
    """Also in full, with times: every tab in its order, whether the text has it or not."""
    shown = VIEWS[name]()
    brief, whole = text(shown), text(shown, full=True, times=True)
    approved(f"views/{name}", brief if brief == whole else f"{brief}\n\n=== in full\n\n{whole}")


def test_that_a_first_call_misses_is_no_news():
    class Driver(FixedDriver):
        def verdict(self):
            return Verdict(False, "trace")

    shown = documents.compile(Capture(capture().program, Driver()), OPTIONS["compile"]())
    assert "Cache:" not in text(shown)


@pytest.mark.parametrize("names", [("optimized", "hlo"), ("1", "fusion")])
def test_any_two_programs_are_compared_in_order_of_time(names):
    said = text(hlo(diff=names))
    assert "- 11 instructions before, 21 after: 6 fused, 2 added." in said
    assert "[-] max_fusion" in said


@pytest.mark.parametrize(
    ("show", "options", "message"),
    [
        (compiled, {"kernel": "max_fuson"}, "no kernel 'max_fuson'; did you mean 'max_fusion'?"),
        (hlo, {"stage": "optimised"}, "no stage 'optimised'; did you mean 'optimized'?"),
        (hlo, {"pass_name": "fusio"}, "no pass or HLO stage 'fusio'; did you mean 'fusion'?"),
        (hlo, {"pass_name": "dce"}, "the pass 'dce' did not change this program, or did not run"),
        (hlo, {"pass_name": "77"}, "no pass or HLO stage '77'; choose from hlo, optimized, fusion"),
        (hlo, {"pass_name": "hlo"}, "'hlo' is a stage; expected the name or number of a pass"),
        (hlo, {"diff": ("hlo", "optimzed")}, "no pass or HLO stage 'optimzed'; did you mean"),
    ],
)
def test_a_wrong_name_gets_one_line_with_the_nearest(show, options, message):
    with pytest.raises(OptionError) as caught:
        show(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_is_asked_for_alone_and_not_given_is_an_error():
    with pytest.raises(UnavailableError, match="no optimized"):
        hlo("optimized", stage="optimized")
