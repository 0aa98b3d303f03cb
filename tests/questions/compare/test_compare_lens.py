"""Comparison of programs whose every difference is known, and of records of three devices."""

from dataclasses import replace

import pytest

import jaxlens
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, Memory, Source, Stage
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.links.match import across_edits
from jaxlens.links.match.across_edits import edited_lines
from jaxlens.program.figures import FIGURES
from jaxlens.program.sentences import device
from jaxlens.questions.compare import facts as compared
from jaxlens.questions.compare import view as comparison
from jaxlens.questions.compare.causes import sides
from jaxlens.questions.compare.receipt import Receipt
from jaxlens.questions.compare.report import _difference, tables
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from tests.support import fixed_captures
from tests.support.fixed_captures import AFTER, BEFORE, at
from tests.support.hlo_counts import joining_fusions
from tests.support.paths import RECORDS

F32 = Type("f32", (4,))


def eqn(number: int, opcode: str, *read: str, type_: Type = F32, **attrs: str) -> Node:
    return Node(f"e{number}", opcode, read, (Value(f"v{number}", type_),), attrs)


def jaxpr(*nodes: Node, inputs: tuple[str, ...] = ("x",)) -> Module:
    return fixed_captures.jaxpr(*nodes, inputs=dict.fromkeys(inputs, F32))


def test_an_equation_put_in_on_top_moves_nobody() -> None:
    before = jaxpr(eqn(0, "sin", "x"), eqn(1, "exp", "v0"), eqn(2, "add", "v1", "v0"))
    after = jaxpr(
        eqn(0, "mul", "x", "2.0:f32[]"),
        eqn(1, "sin", "v0"),
        eqn(2, "exp", "v1"),
        eqn(3, "add", "v2", "v1"),
    )
    pairs = across_edits.equations(before, after)
    assert pairs.new == ("e0",)
    assert pairs.same == {"e0": "e1", "e1": "e2", "e2": "e3"}
    assert not pairs.gone
    assert not pairs.changed
    back = across_edits.equations(after, before)
    assert (back.new, back.gone) == ((), ("e0",))


def test_of_equal_equations_the_one_that_computes_something_else_is_new() -> None:
    before = jaxpr(eqn(0, "sin", "x"), eqn(1, "cos", "v0"))
    after = jaxpr(eqn(0, "sin", "x"), eqn(1, "sin", "v0"), eqn(2, "cos", "v0"))
    pairs = across_edits.equations(before, after)
    assert pairs.new == ("e1",)
    assert pairs.same == {"e0": "e0", "e1": "e2"}


def test_an_argument_put_in_front_changes_no_value() -> None:
    before = jaxpr(eqn(0, "sin", "x"))
    after = jaxpr(eqn(0, "sin", "s"), eqn(1, "sin", "x"), inputs=("s", "x"))
    pairs = across_edits.equations(before, after, inputs=(("x",), ("s", "x")))
    assert pairs.same == {"e0": "e1"}
    assert pairs.new == ("e0",)


def test_the_text_of_its_line_tells_an_equation_of_another_type() -> None:
    lines = {"e0": "a = f(x)", "e1": "b = g(a)"}
    wide = Type("f32", (8,))
    before = jaxpr(eqn(0, "sin", "x"), eqn(1, "sin", "v0"))
    after = jaxpr(eqn(0, "sin", "x", type_=wide), eqn(1, "sin", "v0", type_=wide))
    texts = (lambda node: lines[node.id], lambda node: lines[node.id])
    pairs = across_edits.equations(before, after, texts)
    assert pairs.changed == {"e0": "e0", "e1": "e1"}
    assert not pairs.new
    assert not pairs.gone


def test_an_edited_line_is_known_by_its_text() -> None:
    before = {"h = gelu(x @ w)", "y = h.sum()", "return y"}
    after = {"h = gelu(x.astype(bf16) @ w)", "z = jnp.cumsum(q, axis=1)", "return y"}
    assert edited_lines(before, after) == {
        "h = gelu(x.astype(bf16) @ w)": "h = gelu(x @ w)",
    }
    assert edited_lines(before, before) == {}
    many = {f"line {n}" for n in range(5_000)}, {f"Line {n}" for n in range(5_000)}
    assert edited_lines(*many) == {}  # not that many are compared


def test_a_changed_body_changes_its_call_and_the_rest_of_it_stays() -> None:
    def module(*body: Node) -> Module:
        call = Node("e9", "jit", ("x",), (Value("v9", F32),), {"name": "f"}, ("f",))
        main = Region("main", (Value("x", F32),), (call,), ("v9",), "jaxpr")
        inner = Region("f", (Value("x", F32),), body, (body[-1].name,), "jaxpr")
        return Module("m", "jaxpr", "main", {"main": main, "f": inner})

    before = module(eqn(0, "sin", "x"), eqn(1, "cos", "v0"))
    after = module(eqn(0, "sin", "x"), eqn(1, "exp", "v0"), eqn(2, "cos", "v1"))
    pairs = across_edits.equations(before, after)
    assert pairs.new == ("e1",)
    assert pairs.same == {"e9": "e9", "e0": "e0", "e1": "e2"}


def test_five_thousand_levels_are_paired_without_recursion() -> None:
    def module(last: str) -> Module:
        regions = {}
        for n in range(5000):
            call = Node(f"e{n}", "jit", ("x",), (Value("y", F32),), {}, (f"r{n + 1}",))
            regions[f"r{n}"] = Region(f"r{n}", (Value("x", F32),), (call,), ("y",), "jaxpr")
        leaf = Node("e5000", last, ("x",), (Value("y", F32),))
        regions["r5000"] = Region("r5000", (Value("x", F32),), (leaf,), ("y",), "jaxpr")
        return Module("m", "jaxpr", "r0", regions)

    pairs = across_edits.equations(module("sin"), module("cos"))
    assert (pairs.gone, pairs.new) == (("e5000",), ("e5000",))
    assert len(pairs.same) == 5000


def programs() -> tuple[Module, Module]:
    """The layer before and after fusion, as the results of two compiles."""
    read = [hlo.read(text_, stage="optimized") for text_ in (BEFORE, AFTER)]
    return read[0], read[1]


def test_instructions_are_the_same_inside_a_fusion_and_outside() -> None:
    before, after = programs()
    pairs = across_edits.instructions((before, None), (after, None), None)
    plain = [n for n in before.nodes() if n.opcode not in ("parameter", "tuple")]
    assert {n.id for n in plain} <= pairs.same.keys()
    fusions = [n.id for n in after.nodes() if n.opcode == "fusion"]
    assert set(fusions) <= set(pairs.new)
    assert len(fusions) == 2


def edited(capture: Capture, **given: object) -> Capture:
    """The same capture with some attributes of its driver replaced."""
    driver = fixed_captures.FixedDriver()
    for name, answer in given.items():
        if name in ("optimized", "jaxpr"):
            module = answer
            driver._stages[name] = Stage(BY_NAME[name], lambda: "", lambda m=module: m)
        else:
            setattr(driver, name, lambda answer=answer: answer)
    return Capture(capture.program, driver)


def test_the_first_sentence_is_the_biggest_consequence() -> None:
    capture = fixed_captures.capture()
    before, _ = programs()
    layer = fixed_captures.layer()
    inputs = {value.name: value.type for value in layer.body().parameters}
    nodes = layer.body().nodes
    more = Node("e5", "exp", ("g",), (Value("i", nodes[3].type),), spans=at(3))
    code = fixed_captures.CODE.replace("jnp.maximum(y, 0)", "jnp.exp(jnp.maximum(y, 0))")
    after = edited(
        capture,
        optimized=before,
        jaxpr=fixed_captures.jaxpr(*nodes, more, inputs=inputs),
        memory=Memory(200, 40, 24, 0),
        sources={"<cell 3>": Source("cell 3", code)},
    )
    report = jaxlens.compare(capture, after)
    assert report.findings[0].text == (
        "The edit: 72 B less temporary memory (24 B, was 96 B), 0 fusions instead of 2, "
        "220 B more bytes moved (564 B, was 344 B); "
        "1 equation is new (cell 3:3)."
    )
    assert report.findings[0].ids == ("e5",)
    facts = compared.facts(capture, after)
    assert facts.figures["fusions"] == (2, 0)
    assert facts.figures["equations"] == (5, 6)
    assert [(line.before, line.after, line.new) for line in facts.lines] == [
        ("cell 3:3", "cell 3:3", ("e5",))
    ]


@pytest.mark.parametrize(
    ("was", "now", "text"),
    [
        (100_000, 99_999, "-1"),
        (1_000, 995, "-5"),
        (1_000, 994, "-6 (-1%)"),
        (4, 5, "+1 (+25%)"),
        (7, 7, "same"),
    ],
)
def test_a_change_below_half_a_percent_is_no_percentage(was, now, text) -> None:
    assert _difference(was, now, FIGURES["kernels"]).text == text


def test_the_same_capture_is_the_same() -> None:
    capture = fixed_captures.capture()
    facts = compared.facts(capture, edited(capture))
    assert facts.figures["temporaries"] == (96, 96)
    assert facts.equations.equal
    assert not facts.causes


def test_inputs_flags_and_versions_are_the_suspects() -> None:
    capture = fixed_captures.capture()
    program = capture.program
    wide = (replace(program.inputs[0], type=Type("f32", (8, 8))), *program.inputs[1:])
    target = replace(program.target, jax="0.12.0")

    def first(**other: object) -> str:
        changed = Capture(replace(program, **other), capture.driver)
        return compared.facts(capture, changed).causes[0].text

    assert first(inputs=wide) == "With x f32[8,8] instead of f32[4,8]"
    more = (*program.inputs, Input("y", Type("f32", ())))
    assert first(inputs=more) == "With a new input y f32[]"
    assert first(flags=("without fusion",)) == "Without fusion"
    assert first(target=target) == "JAX 0.12.0 instead of "
    assert first(transforms=("grad",)) == "As grad(layer) instead of layer"


@pytest.mark.parametrize("missing", ["memory", "optimized", "kernels", "cost"])
def test_what_is_missing_is_named_and_the_rest_compared(missing: str) -> None:
    whole, part = fixed_captures.capture(), fixed_captures.capture(missing)
    report = jaxlens.compare(whole, part)
    said = " ".join(finding.text for finding in report.findings)
    assert f"(after: this backend gives no {missing})." in said
    assert compared.facts(whole, part).figures["equations"] == (5, 5)


@pytest.mark.parametrize("device", ["gpu-h100", "tpu-v5e-2x2"])
@pytest.mark.parametrize("name", ["mlp_step", "scan_rnn", "attention"])
def test_records_of_two_devices_are_compared(name: str, device: str) -> None:
    before = jaxlens.load(RECORDS / f"{name}.cpu.jaxlens")
    after = jaxlens.load(RECORDS / f"{name}.{device}.jaxlens")
    facts = compared.facts(before, after)
    assert facts.equations.equal  # one program, traced once for each
    assert facts.causes[0].kind == "device"
    for n, capture in enumerate((before, after)):
        assert facts.figures["fusions"][n] == joining_fusions(capture.optimized.text)
    shown = comparison.compare(before, after)
    assert before.program.target.kind in text(shown)
    assert len(html(shown)) < 100_000
    assert "the same equations" in jaxlens.compare(before, after).findings[0].text


def test_a_receipt_of_a_record_needs_no_device() -> None:
    receipt = Receipt(jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens"))
    other = Receipt(jaxlens.load(RECORDS / "mlp_step.gpu-h100.jaxlens"))
    assert receipt.equations == other.equations == sum(receipt.primitives.values())
    assert receipt.stable.splitlines()[1:][2:] == other.stable.splitlines()[1:][2:]
    assert receipt != other
    with pytest.raises(UnavailableError, match="no flops by XLA"):
        _ = other.xla_flops


def test_the_title_of_a_receipt_sums_many_inputs_up() -> None:
    cap = fixed_captures.capture()
    leaves = tuple(Input(f"params['{i}']", Type("f32", (1000,))) for i in range(76))
    program = replace(cap.program, inputs=(*leaves, *cap.program.inputs[:1]))
    title = "layer(params (76 arrays, 304 kB), x f32[4,8]) for cpu"
    assert repr(Receipt(replace(cap, program=program))) == f"<Receipt of {title}>"


def test_a_receipt_says_what_is_another() -> None:
    receipt = Receipt(fixed_captures.capture())
    receipt.expect(fusions=2, equations=5, temporaries=96, reserved=336)
    with pytest.raises(AssertionError) as error:
        receipt.expect(fusions=1, equations=5, temporaries=0)
    assert str(error.value) == (
        "layer(x f32[4,8], w f32[8,2], b f32[2]) for cpu is another program:\n"
        "  fusions: 2, expected 1\n"
        "    max_fusion: broadcast x 2, add, maximum (cell 3:2 and cell 3:3)\n"
        "    gt_fusion: broadcast x 2, add, compare (cell 3:2 and cell 3:3)\n"
        "  temporaries: 96, expected 0"
    )
    assert "fusions 2" in repr(receipt)
    with pytest.raises(jaxlens.LensError, match="did you mean 'fusions'"):
        receipt.expect(fusion=2)


def on(capture: Capture, **changes: object) -> Capture:
    """The same capture with another target."""
    program = capture.program
    return Capture(replace(program, target=replace(program.target, **changes)), capture.driver)


@pytest.mark.parametrize(
    ("record", "kind", "says", "back"),
    [
        (
            "mlp_step.gpu-h100",
            "",
            "Compiled on the device instead of for an absent device",
            "Compiled for an absent device instead of on the device",
        ),
        ("mlp_step.tpu-v5e-2x2", "GB", "On GB instead of {0}", "On {0} instead of GB"),
    ],
)
def test_a_program_for_a_device_that_is_not_here_differs_by_that(record, kind, says, back) -> None:
    there = jaxlens.load(RECORDS / f"{record}.jaxlens")
    name = device(there.program.target)
    changes = {"kind": kind, "devices": 1} if kind else {}
    here = on(there, absent=False, **changes)
    answer = jaxlens.compare(there, here)
    assert [cause.text for cause in answer.causes] == [says.format(name)]
    assert "against the same call for " in " ".join(str(answer).split())
    assert jaxlens.compare(here, there).causes[0].text == back.format(name)
    if not kind:
        assert answer.tables[0].columns[1:3] == ("for an absent device", "on the device")


def test_a_figure_without_the_flops_of_custom_calls_says_so() -> None:
    there = jaxlens.load(RECORDS / "attention.gpu-h100.jaxlens")
    note = "XLA counts no flops for a library call that is a custom call."
    compared_here = compared.facts(there, there)
    for calls in (0, 1):
        figures = {**compared_here.figures, "library_calls": (0, calls)}
        table = tables(replace(compared_here, figures=figures), ("before", "after"))
        assert (note in next(iter(table)).note) is bool(calls)


def test_a_long_heading_is_cut() -> None:
    plain = jaxlens.load(RECORDS / "mlp_step.gpu-h100.jaxlens").program
    names = "triton-gemm-rewriter, triton-softmax-rewriter, priority-fusion and multi_output_fusion"
    before, after = sides(plain, replace(plain, flags=(f"without {names}",)))
    assert before == "as it is"
    assert after.startswith("without triton-gemm-rewriter")
    assert len(after) == 48
    short = replace(plain, flags=("without dot-library-rewriter and fusion",))
    assert sides(plain, short)[1] == "without dot-library-rewriter and fusion"


def test_a_figure_that_both_lack_is_named_once():
    cap = jaxlens.load(RECORDS / "mlp_step.gpu-h100.jaxlens")
    (text,) = [f.text for f in jaxlens.compare(cap, cap).findings if "Not compared" in f.text]
    assert text.startswith("Not compared: flops by XLA, loops once and bytes accessed")
    assert "(both: no cost analysis on gpu" in text
