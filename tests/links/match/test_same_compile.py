"""Instructions are matched by value, name and position; different ones are never linked."""

import time

import pytest

from jaxlens.ir.hlo.value_numbering import Numbers, number
from jaxlens.links.match.instruction_fates import between
from jaxlens.links.match.link import Link, Relation
from jaxlens.links.match.same_compile import relate
from tests.support import fixed_captures as fixed

pytestmark = pytest.mark.reads_jax


def entry(body: str, extra: str = "") -> str:
    return f"HloModule m\n\n{extra}ENTRY %e (p: f32[4], q: f32[4]) -> f32[4] {{\n{body}\n}}\n"


PARAMETERS = "  %p = f32[4]{0} parameter(0)\n  %q = f32[4]{0} parameter(1)\n"


def linked(before: str, after: str) -> Relation:
    return relate(fixed.module(before), fixed.module(after))


def test_every_instruction_is_followed_into_its_fusions() -> None:
    relation = linked(fixed.BEFORE, fixed.AFTER)
    assert relation.forward("dot.1") == ("dot.1",)
    assert set(relation.forward("add.1")) == {"add.5", "add.6"}
    assert set(relation.forward("zeros")) == {"zeros.5", "zeros.6"}
    assert relation.forward("max.1") == ("max.5",)
    assert relation.forward("gt.1") == ("gt.6",)
    assert relation.back("bias.6") == ("bias.1",)
    assert {link.how for link in relation.out("add.1")} == {"value"}
    assert all(relation.forward(node.id) for node in fixed.module(fixed.BEFORE).nodes())


def test_a_fusion_is_no_image_of_what_it_holds() -> None:
    relation = linked(fixed.BEFORE, fixed.AFTER)
    assert relation.back("max_fusion") == ()
    assert relation.back("p0") == ()


def test_other_operands_constants_and_attributes_make_other_values() -> None:
    before = entry(
        PARAMETERS
        + "  %c = f32[] constant(1)\n  %s = f32[4]{0} broadcast(%c), dimensions={}\n"
        + "  %a = f32[4]{0} subtract(%p, %q)\n  ROOT %r = f32[4]{0} multiply(%a, %s)"
    )
    after = entry(
        PARAMETERS
        + "  %c2 = f32[] constant(2)\n  %s2 = f32[4]{0} broadcast(%c2), dimensions={}\n"
        + "  %a2 = f32[4]{0} subtract(%q, %p)\n  ROOT %r2 = f32[4]{0} multiply(%a2, %s2)"
    )
    relation = linked(before, after)
    assert [relation.forward(id) for id in ("c", "s", "a", "r")] == [(), (), (), ()]


def test_operands_of_a_sum_may_change_places() -> None:
    before = entry(PARAMETERS + "  ROOT %a = f32[4]{0} add(%p, %q)")
    after = entry(PARAMETERS + "  ROOT %b = f32[4]{0} add(%q, %p)")
    assert linked(before, after).forward("a") == ("b",)


def test_constants_whose_digits_are_left_out_are_not_taken_for_equal() -> None:
    before = entry(
        PARAMETERS + "  %c = f32[4]{0} constant({...})\n  ROOT %r = f32[4]{0} add(%p, %c)"
    )
    after = entry(
        PARAMETERS + "  %d = f32[4]{0} constant({...})\n  ROOT %s = f32[4]{0} add(%p, %d)"
    )
    assert linked(before, after).forward("c") == ()


def test_merged_instructions_all_lead_to_the_one_that_stays() -> None:
    twice = "  %a = f32[4]{0} add(%p, %q)\n  %b = f32[4]{0} add(%p, %q)\n"
    before = entry(PARAMETERS + twice + "  ROOT %r = f32[4]{0} multiply(%a, %b)")
    after = entry(
        PARAMETERS + "  %a = f32[4]{0} add(%p, %q)\n  ROOT %r = f32[4]{0} multiply(%a, %a)"
    )
    relation = linked(before, after)
    assert relation.forward("b") == ("a",)
    assert set(relation.back("a")) == {"a", "b"}


def test_a_copy_hands_its_value_on() -> None:
    before = entry(PARAMETERS + "  ROOT %r = f32[4]{0} tanh(%p)")
    after = entry(PARAMETERS + "  %k = f32[4]{0} copy(%p)\n  ROOT %r2 = f32[4]{0} tanh(%k)")
    relation = linked(before, after)
    assert relation.forward("r") == ("r2",)
    assert relation.back("k") == ()


def test_names_carry_what_has_other_operands_now() -> None:
    before = entry(
        PARAMETERS + "  %a = f32[4]{0} add(%p, %q)\n  ROOT %r = f32[4]{0} tanh(%a), metadata={}"
    )
    after = entry(PARAMETERS + "  %m = f32[4]{0} multiply(%p, %q)\n  ROOT %r = f32[4]{0} tanh(%m)")
    relation = linked(before, after)
    assert relation.out("r") == (Link("r", "r", "named"),)
    assert relation.forward("a") == ()


def test_a_place_links_only_where_it_is_unique() -> None:
    meta = ', metadata={op_name="jit(f)/div"}'
    one = entry(PARAMETERS + f"  ROOT %d = f32[4]{{0}} divide(%p, %q){meta}")
    other = entry(PARAMETERS + f"  ROOT %m = f32[4]{{0}} multiply(%p, %q){meta}")
    both = entry(
        PARAMETERS
        + f"  %m = f32[4]{{0}} multiply(%p, %q){meta}\n  ROOT %n = f32[4]{{0}} negate(%m){meta}"
    )
    assert linked(one, other).out("d") == (Link("d", "m", "span"),)
    assert linked(one, both).out("d") == ()


def test_bodies_of_loops_are_paired_by_their_loops() -> None:
    body = """%{0} (s: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %s.{0} = (s32[], f32[4]{{0}}) parameter(0)
  %i.{0} = s32[] get-tuple-element(%s.{0}), index=0
  %v.{0} = f32[4]{{0}} get-tuple-element(%s.{0}), index=1
  %t.{0} = f32[4]{{0}} tanh(%v.{0})
  ROOT %o.{0} = (s32[], f32[4]{{0}}) tuple(%i.{0}, %t.{0})
}}

%cond_{0} (s: (s32[], f32[4])) -> pred[] {{
  %z.{0} = (s32[], f32[4]{{0}}) parameter(0)
  %n.{0} = s32[] get-tuple-element(%z.{0}), index=0
  %ten.{0} = s32[] constant(10)
  ROOT %lt.{0} = pred[] compare(%n.{0}, %ten.{0}), direction=LT
}}

"""
    main = (
        PARAMETERS
        + "  %z = s32[] constant(0)\n  %init = (s32[], f32[4]{{0}}) tuple(%z, %p)\n"
        + "  %w = (s32[], f32[4]{{0}}) while(%init), condition=%cond_{0}, body=%{0}\n"
        + "  ROOT %r = f32[4]{{0}} get-tuple-element(%w), index=1"
    )
    before = entry(main.format("old"), body.format("old"))
    after = entry(main.format("new"), body.format("new"))
    relation = linked(before, after)
    assert relation.forward("t.old") == ("t.new",)
    assert relation.forward("ten.old") == ("ten.new",)


@pytest.mark.parametrize("opcode", ["call", "fusion"])
def test_thousands_of_levels_need_no_recursion(opcode: str) -> None:
    attribute = "to_apply" if opcode == "call" else "kind=kLoop, calls"
    parts = [
        "%f0 (a: f32[4]) -> f32[4] {\n  %a0 = f32[4]{0} parameter(0)\n"
        "  ROOT %r0 = f32[4]{0} tanh(%a0)\n}\n\n"
    ]
    for i in range(1, 5000):
        parts.append(
            f"%f{i} (a: f32[4]) -> f32[4] {{\n  %a{i} = f32[4]{{0}} parameter(0)\n"
            f"  ROOT %r{i} = f32[4]{{0}} {opcode}(%a{i}), {attribute}=%f{i - 1}\n}}\n\n"
        )
    text = entry(
        PARAMETERS + f"  ROOT %r = f32[4]{{0}} {opcode}(%p), {attribute}=%f4999", "".join(parts)
    )
    relation = linked(text, text)
    assert relation.forward("r0") == ("r0",)


def test_calls_that_double_at_each_level_stay_bounded() -> None:
    parts = [
        "%f0 (a: f32[4]) -> f32[4] {\n  %a0 = f32[4]{0} parameter(0)\n"
        "  ROOT %r0 = f32[4]{0} tanh(%a0)\n}\n\n"
    ]
    for i in range(1, 40):
        parts.append(
            f"%f{i} (a: f32[4]) -> f32[4] {{\n  %a{i} = f32[4]{{0}} parameter(0)\n"
            f"  %b{i} = f32[4]{{0}} call(%a{i}), to_apply=%f{i - 1}\n"
            f"  ROOT %r{i} = f32[4]{{0}} call(%b{i}), to_apply=%f{i - 1}\n}}\n\n"
        )
    text = entry(PARAMETERS + "  ROOT %r = f32[4]{0} call(%p), to_apply=%f39", "".join(parts))
    module = fixed.module(text)
    numbered = number(module, Numbers())
    assert sum(map(len, numbered.values())) < 50_000
    assert relate(module, module).forward("r") == ("r",)


def test_many_equal_instructions_make_no_quadratic_work() -> None:
    rows = "".join(f"  %c{i} = f32[] constant(1)\n" for i in range(4000))
    text = entry(PARAMETERS + rows + "  ROOT %r = f32[4]{0} add(%p, %q)")
    module = fixed.module(text)
    start = time.process_time()
    relation = relate(module, module)
    assert time.process_time() - start < 5
    assert len(relation) == 4003


def loop(name: str, state: list[str], body: str, root: str) -> str:
    """A module with one loop whose carry has the types `state`, all taken from `p`."""
    type_ = f"({', '.join(state)})"
    parts = "\n".join(
        f"  %{name}{i} = {t} get-tuple-element(%{name}.s), index={i}" for i, t in enumerate(state)
    )
    return f"""HloModule m

%{name}.body ({name}.s: {type_}) -> {type_} {{
  %{name}.s = {type_} parameter(0)
{parts}
{body}
  ROOT %{name}.r = {type_} tuple({root})
}}

%{name}.cond ({name}.c: {type_}) -> pred[] {{
  %{name}.c = {type_} parameter(0)
  ROOT %{name}.t = pred[] constant(true)
}}

ENTRY %e (p: {type_}) -> {type_} {{
  %p = {type_} parameter(0)
  ROOT %{name}.w = {type_} while(%p), condition=%{name}.cond, body=%{name}.body, metadata={{op_name="jit(f)/while"}}
}}
"""  # noqa: E501


def test_a_loop_that_got_more_state_keeps_its_instructions() -> None:
    before = loop(
        "a",
        ["f32[4]", "f32[4]"],
        "  %up = f32[4] exponential(%a0)\n  %down = f32[4] subtract(%a1, %a0)",
        "%up, %down",
    )
    after = loop(
        "b",
        ["f32[4]", "f32[4]", "s32[]"],
        "  %u = f32[4] exponential(%b0)\n  %d = f32[4] subtract(%b1, %b0)",
        "%u, %d, %b2",
    )
    relation = linked(before, after)
    assert relation.forward("a.w") == ("b.w",)
    assert (relation.forward("up"), relation.forward("down")) == (("u",), ("d",))
    assert relation.forward("a1") == ("b1",)


def test_a_loop_that_lost_state_pairs_nothing_by_place_in_it() -> None:
    before = loop(
        "a",
        ["f32[4]", "f32[4]", "s32[]"],
        "  %up = f32[4] exponential(%a0)\n  %down = f32[4] exponential(%a1)",
        "%up, %down, %a2",
    )
    after = loop("b", ["f32[4]", "s32[]"], "  %d = f32[4] exponential(%b0)", "%d, %b1")
    relation = linked(before, after)
    assert relation.forward("a.w") == ("b.w",)
    assert relation.forward("up") == ()


@pytest.mark.parametrize("name", ["p", "q"])
def test_a_gather_is_followed_into_each_fusion_that_libtpu_splits_it_into(name: str) -> None:
    relation = linked(fixed.GATHERS, fixed.SPLIT_GATHERS)
    parts = tuple(f"gather.{name}.{n}" for n in (1, 2, 3))
    assert relation.forward(f"gather.{name}") == parts
    assert all(relation.back(part) == (f"gather.{name}",) for part in parts)
    fates = between(fixed.module(fixed.GATHERS), fixed.module(fixed.SPLIT_GATHERS)).fates
    fate = fates[f"gather.{name}"]
    assert fate.fusions == (f"first.{name}", f"next.{name}", f"last.{name}")
    assert (fate.name, fate.copies) == ("fused", 1)  # it is not computed three times


def test_what_reads_the_end_of_a_gather_reads_the_gather() -> None:
    reader = "  reader = f32[16]{0} negate(%s)\n  ROOT"
    before = fixed.GATHERS.replace("  ROOT", reader % "gather.p")
    after = fixed.SPLIT_GATHERS.replace("  ROOT out", reader % "last.p" + " out")
    after = after.replace("reader =", "other =")
    assert linked(before, after).out("reader") == (Link("reader", "other", "value"),)


def test_gathers_of_one_channel_are_told_apart_by_their_ops() -> None:
    def with_ops(text: str) -> str:
        ops = ((".p", stamped("all_gather", "s1")), (".q", stamped("all_gather", "s2")))
        return "\n".join(
            line + next(op for name, op in ops if f"gather{name}" in line)
            if " all-gather(" in line
            else line
            for line in text.splitlines()
        )

    # What is sent has another value now, as in another precision.
    after = fixed.SPLIT_GATHERS.replace(" copy(", " negate(")
    assert linked(fixed.GATHERS, after).forward("gather.p") == ()
    relation = linked(with_ops(fixed.GATHERS), with_ops(after))
    for name in "pq":
        assert relation.forward(f"gather.{name}") == tuple(f"gather.{name}.{n}" for n in (1, 2, 3))
        assert {link.how for link in relation.out(f"gather.{name}")} == {"stamped"}


def stamped(op: str, id: str) -> str:
    return f', metadata={{op_name="jit(f)/_jl{id}_/{op}"}}'


def in_fusions(*bodies: str) -> str:
    """A program of a fusion for each body, whose parameter is `a` and whose root is `r`."""
    regions = "".join(
        f"%f{n} (a{n}: f32[4]) -> f32[4] {{\n  %a{n} = f32[4]{{0}} parameter(0)\n{body}\n}}\n\n"
        for n, body in enumerate(bodies)
    )
    calls = "".join(
        f"  %k{n} = f32[4]{{0}} fusion(%p), kind=kLoop, calls=%f{n}\n" for n in range(len(bodies))
    )
    return entry(PARAMETERS + calls + "  ROOT %o = f32[4]{0} add(%k0, %q)", regions)


WIDENED = """  %w{0} = bf16[4]{{0}} convert(%a{0})
  %v{0} = f32[4]{{0}} convert(%w{0})
  %t{0} = f32[4]{{0}} tanh(%v{0}){1}
  ROOT %r{0} = f32[4]{{0}} negate(%t{0})"""
TWICE = """  %s{0} = f32[4]{{0}} tanh(%a{0}){1}
  %t{0} = f32[4]{{0}} tanh(%s{0}){1}
  ROOT %r{0} = f32[4]{{0}} negate(%t{0})"""


@pytest.mark.parametrize(
    ("bodies", "heads"),
    [
        ((WIDENED.format(0, stamped("tanh", "s1")),), ("t0",)),
        # Two fusions compute it, each in its own precision.
        (
            (
                WIDENED.format(0, stamped("tanh", "s1")),
                f"  ROOT %t1 = bf16[4]{{0}} tanh(%a1){stamped('tanh', 's1')}",
            ),
            ("t0", "t1"),
        ),
        # A pass expanded the op: neither is known to be the one.
        ((TWICE.format(0, stamped("tanh", "s1")),), ()),
        ((WIDENED.format(0, stamped("tanh", "s2")),), ()),
        ((WIDENED.format(0, ""),), ()),
    ],
    ids=["widened", "in two fusions", "expanded", "another op", "no stamp"],
)
def test_the_op_links_what_has_another_value_now(bodies, heads) -> None:
    before = entry(
        "  %p = f32[4]{0} parameter(0)\n  %q = f32[4]{0} parameter(1)\n"
        f"  %x = bf16[4]{{0}} convert(%p)\n  %t = bf16[4]{{0}} tanh(%x){stamped('tanh', 's1')}\n"
        "  %y = f32[4]{0} convert(%t)\n  ROOT %o = f32[4]{0} add(%y, %q)"
    )
    relation = linked(before, in_fusions(*bodies))
    assert relation.forward("t") == heads
    assert {link.how for link in relation.out("t")} <= {"stamped"}


SUM = "sum (x: f32[], y: f32[]) -> f32[] {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
SUM += "  ROOT s = f32[] add(x, y)\n}\n\n"
OTHER = SUM.replace("sum", "sum.2").replace("s =", "s.2 =").replace("x", "x.2").replace("y", "y.2")


def test_collectives_that_are_combined_lead_to_the_one() -> None:
    before = entry(
        PARAMETERS
        + "  %a = f32[4]{0} all-reduce(%p), channel_id=1, to_apply=%sum\n"
        + "  %b = f32[4]{0} all-reduce(%q), channel_id=2, to_apply=%sum.2\n"
        + "  ROOT %r = f32[4]{0} subtract(%a, %b)",
        SUM + OTHER,
    )
    after = entry(
        PARAMETERS
        + "  %c = (f32[4]{0}, f32[4]{0}) all-reduce(%p, %q), channel_id=1, to_apply=%sum\n"
        + "  %a2 = f32[4]{0} get-tuple-element(%c), index=0\n"
        + "  %b2 = f32[4]{0} get-tuple-element(%c), index=1\n"
        + "  ROOT %r2 = f32[4]{0} subtract(%a2, %b2)",
        SUM,
    )
    relation = linked(before, after)
    assert (relation.forward("a"), relation.forward("b")) == (("c",), ("c",))
    assert relation.forward("r") == ("r2",)
    assert (relation.forward("s"), relation.forward("s.2")) == (("s",), ("s",))


def test_what_moves_a_value_is_followed_by_the_value() -> None:
    reduced = "  %a = f32[4]{0} all-reduce(%p), channel_id=7, to_apply=%sum\n"
    before = entry(
        PARAMETERS
        + reduced
        + "  %z = s32[] constant(2)\n"
        + "  %d = f32[2]{0} dynamic-slice(%a, %z), dynamic_slice_sizes={2}\n"
        + "  ROOT %r = f32[4]{0} pad(%d, %z), padding=0_2",
        SUM,
    )
    body = """%f (i: f32[4]) -> f32[3] {
  %i = f32[4]{0} parameter(0)
  %c = f32[] constant(0)
  %w = f32[6]{0} pad(%i, %c), padding=0_2
  %a2 = f32[6]{0} all-reduce(%w), channel_id=7, to_apply=%sum
  %n = u32[] constant(3)
  ROOT %d2 = f32[3]{0} dynamic-slice(%a2, %n), dynamic_slice_sizes={3}
}

"""
    more = "  %d3 = f32[3]{0} dynamic-slice(%a2, %n), dynamic_slice_sizes={3}\n  ROOT"
    after = PARAMETERS + "  ROOT %k = f32[3]{0} fusion(%p), kind=kCustom, calls=%f"
    relation = linked(before, entry(after, SUM + body))
    assert relation.out("a") == (Link("a", "a2", "stamped"),)
    assert relation.out("d") == (Link("d", "d2", "inferred"),)
    twice = linked(before, entry(after, SUM + body.replace("  ROOT", more)))
    assert twice.forward("d") == ()  # two move it now
