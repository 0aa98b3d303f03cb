"""`capture.links`: queries between any two stages, their evidence, and their errors."""

import pytest

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.driver import Driver, Extra
from jaxlens.ir.facts import Kernel, PassStage, Program, Stage, Target
from jaxlens.ir.graph import Module
from jaxlens.ir.stage import BY_NAME
from jaxlens.links.links import STAGES
from jaxlens.views.links import weave
from tests.support import fixed_captures as fixed
from tests.support import linked_modules as by_hand

pytestmark = pytest.mark.reads_jax


class CountingDriver(Driver):
    """A driver with the hand-written program that counts its queries."""

    def __init__(self, dumps: bool = True, missing: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self.dumps = dumps
        self.missing = missing
        self.modules = by_hand.linked().modules

    def recorded(self) -> frozenset[Extra]:
        return frozenset({"passes"} if self.dumps else ())

    def stage(self, name: str) -> Stage:
        if name in self.missing:
            raise UnavailableError(f"this backend gives no {name}")
        self.asked.append(name)

        def read() -> Module:
            return self.modules[name]

        return Stage(BY_NAME[name], lambda: name, read)

    def passes(self) -> tuple[PassStage, ...]:
        self.asked.append("passes")
        return (
            fixed.dump(0, "", "before_optimizations", by_hand.BEFORE, False),
            fixed.dump(1, "fuse", "fusion", by_hand.AFTER),
        )

    def kernels(self) -> tuple[Kernel, ...]:
        return (
            Kernel("mul_max_kernel", "mul_max", "kernel", llvm_after="define", asm="ret"),
            Kernel("max.2", "max.2", "library call"),
        )


def capture(**asked: object) -> tuple[Capture, CountingDriver]:
    driver = CountingDriver(**asked)  # type: ignore[arg-type]
    return Capture(Program("f", (), (), Target("cpu", "cpu")), driver), driver


def test_forward_through_all_stages() -> None:
    links = capture()[0].links
    assert set(links.forward("cell 1:2", "jaxpr")) == {"e0", "e4"}
    assert links.forward("e0", "stablehlo") == ("s0",)
    assert links.forward("s0", "hlo") == ("mul",)
    assert links.forward("mul", "optimized", at="hlo") == ("mul_max", "mul.1")
    assert links.forward("e0", "kernels") == ("mul_max_kernel",)
    assert links.forward("e0", "passes[1]") == links.forward("e0", "optimized")
    assert links.forward("e4", "optimized") == ()


def test_back_through_all_stages() -> None:
    links = capture()[0].links
    assert links.back("max.2", "stablehlo") == ("s2", "s5")
    assert links.back("max.2", "source") == ("cell 1:4",)
    assert set(links.back("mul_max_kernel", "source")) == {"cell 1:2", "cell 1:3"}
    assert links.back("spread.2", "jaxpr") == ("e2", "e3")


def test_a_kernel_without_code_is_in_no_code_stage() -> None:
    links = capture()[0].links
    assert "max.2" in links.forward("e2", "kernels")
    assert links.forward("e2", "llvm") == links.forward("e2", "asm") == ()
    assert links.forward("e0", "asm") == ("mul_max_kernel",)


def test_a_link_is_known_as_its_weaker_end() -> None:
    links = capture()[0].links

    def how(id: str, to: str, at: str) -> dict[str, str]:
        return {link.head: link.how for link in links.links(id, to, at)}

    assert how("e0", "hlo", "jaxpr") == {"mul": "stamped"}
    assert how("e0", "kernels", "jaxpr") == {"mul_max_kernel": "named"}
    assert how("e0", "source", "jaxpr") == {"cell 1:2": "span"}
    assert how("e2", "optimized", "jaxpr")["spread.2"] == "inferred"


def test_a_question_asks_for_no_later_stage() -> None:
    looked, driver = capture()
    looked.links.forward("e0", "source")
    assert set(driver.asked) == {"jaxpr"}
    looked.links.forward("e0", "stablehlo")
    assert set(driver.asked) == {"jaxpr", "stablehlo"}
    looked.links.forward("e0", "hlo")
    assert "optimized" not in driver.asked


def test_dumps_are_read_only_if_they_are_at_hand() -> None:
    looked, driver = capture(dumps=False)
    assert looked.links.fate("e0").by == ""
    assert "passes" not in driver.asked
    looked, driver = capture()
    assert (looked.links.fate("e0").by, looked.links.fate("e0").index) == ("fusion", 1)


def test_coverage_counts_what_computes_and_says_why_the_rest_is_not_linked() -> None:
    coverage = capture()[0].links.coverage()
    assert coverage.counted == (8, 5)  # two of mul, max, fusion and copy, and two broadcasts
    assert coverage.instructions == 7 / 8
    assert coverage.equations == 1
    (missing,) = coverage.missing
    assert (missing.stage, missing.id) == ("optimized", "handed")
    assert missing.why == "copy of the argument x, which no equation changes"


@pytest.mark.parametrize(
    ("id", "to", "at", "words"),
    [
        ("e0", "optimised", "", "no stage 'optimised'; did you mean 'optimized'?"),
        ("e99", "hlo", "", "no stage has 'e99'"),
        ("mul", "optimized", "jaxpr", "no 'mul' in jaxpr"),
        ("e0", "passes[9]", "", "no passes[9]; there are 2 dumps"),
    ],
)
def test_wrong_questions_get_one_line(id: str, to: str, at: str, words: str) -> None:
    with pytest.raises(OptionError) as error:
        capture()[0].links.forward(id, to, at)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_no_such_equation() -> None:
    with pytest.raises(OptionError, match="no equation 'e9'"):
        capture()[0].links.fate("e9")


def test_what_a_backend_does_not_give_is_said() -> None:
    with pytest.raises(UnavailableError):
        capture(missing=("optimized",))[0].links.forward("e0", "optimized")


def test_the_web_has_the_same_links() -> None:
    looked = capture()[0]
    web = weave(looked.links, STAGES)
    assert web.lines["cell 1:4"]
    for stage in ("stablehlo", "hlo", "optimized", "kernels"):
        for id, atoms in web.atoms["jaxpr"].items():
            lit = {other for other, theirs in web.atoms[stage].items() if set(atoms) & set(theirs)}
            assert lit == set(looked.links.forward(id, stage))
    assert web.fates["e4"].startswith("Dead")
    assert web.ends == {"e0": 1, "e1": 1, "e2": 1, "e3": 1}
    assert web.how["optimized"][""] in ("stamped", "inferred")
    assert web.stacks[web.stack["e3"]] == ("cell 1:3 in f",)


def test_a_web_without_the_ops_that_link_it_shows_the_equations() -> None:
    web = weave(capture(missing=("stablehlo",))[0].links, STAGES)
    assert set(web.atoms) == {"jaxpr"}
    web = weave(capture(missing=("hlo",))[0].links, STAGES)
    assert set(web.atoms) == {"jaxpr", "stablehlo", "optimized", "kernels"}
    assert not web.fates
    web = weave(capture(missing=("optimized",))[0].links, STAGES)
    assert set(web.atoms) == {"jaxpr", "stablehlo", "hlo"}
    assert not web.fates
