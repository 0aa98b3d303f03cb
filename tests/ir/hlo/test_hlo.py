"""The HLO reader: every form, unknown and malformed text, and running time."""

import copy
import json
import pickle
import random
import time
from contextlib import suppress
from dataclasses import replace

import pytest

import jaxlens
from jaxlens.errors import ReadError
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Frames
from jaxlens.ir.hlo.text import (
    attributes,
    instruction_attributes,
    instructions,
    read_type,
    split,
    unescape,
)
from tests.ir.check import check
from tests.support.paths import RECORDS, TEXTS

HEAD = "HloModule m\n\n"
SAMPLE = (RECORDS / "scan_grad.hlo.txt").read_text()


def entry(*lines: str) -> str:
    return HEAD + "ENTRY e {\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def nodes(text: str):
    module = hlo.read(text)
    assert check(module) == []
    assert module.unknown == ()
    return {node.id: node for node in module.nodes()}


def test_a_recorded_module_is_a_legal_graph():
    module = hlo.read(SAMPLE, stage="optimized")
    assert check(module) == []
    assert module.unknown == ()
    assert module.stage == "optimized"
    assert next(iter(module.regions)) == module.entry
    assert {node.opcode for node in module.nodes()} >= {"while", "fusion", "dot", "tuple"}
    loop = next(node for node in module.nodes() if node.opcode == "while")
    assert len(loop.regions) == 2
    assert list(loop.attrs)[:2] == ["condition", "body"]
    assert json.loads(loop.attrs["backend_config"])["known_trip_count"] == {"n": "20"}
    for region in module.regions.values():
        root = next(node for node in region.nodes if node.id == region.results[0])
        assert root.text.startswith("ROOT ")


FORMS = {
    "short": "add(a, b)",
    "percent": "add(%a, %b)",
    "types": "add(f32[2]{0} %a, f32[2]{0} %b)",
    "types alone": "add(f32[2] a, f32[2] b)",
    "comment": "add(%a, /*index=1*/%b)",
    "tight": "add(%a,%b)",
    "wide": "add( %a ,  %b )",
    "tiled": 'add(f32[2]{0:T(8,128)(2,1)S(1)} %a, f32[2]{0} %b), metadata={op_name="x"}',
    "attributes": 'add(a, b), backend_config={"x":[1,{"y":"}"}]}, sharding={replicated}',
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_operands(form):
    instructions = nodes(
        entry(
            "a = f32[2]{0} parameter(0)",
            "b = f32[2]{0} parameter(1)",
            f"c = f32[2]{{0}} {FORMS[form]}",
        )
    )
    assert instructions["c"].operands == ("a", "b")
    assert instructions["c"].opcode == "add"


TYPES = {
    "f32[]": ("f32[]", "", 4),
    "bf16[2,3]{1,0:T(8,128)(2,1)S(1)}": ("bf16[2,3]", "{1,0:T(8,128)(2,1)S(1)}", 12),
    "s32[<=5,?]{1,0}": ("s32[<=5,?]", "{1,0}", None),
    "token[]": ("token[]", "", 0),
    "()": ("()", "", 0),
    "(f32[2]{0}, (pred[], /*index=2*/s8[3]))": ("(f32[2], (pred[], s8[3]))", "", 12),
    "newtype9[4]{0}": ("newtype9[4]", "{0}", None),
}


@pytest.mark.parametrize("text", TYPES)
def test_types(text):
    type_ = read_type(text)
    assert (str(type_), type_.layout, type_.bytes) == TYPES[text]
    assert nodes(entry(f"ROOT a = {text} parameter(0)"))["a"].type == type_


def test_a_literal_and_a_number_are_attributes():
    instructions = nodes(
        entry(
            "p = f32[2]{0} parameter(0), parameter_replication={false}",
            "c = f32[2,2]{1,0} constant({ { 1, 2 }, { -inf, nan } })",
            "t = (f32[], pred[]) constant((1, true))",
            "s = f32[] constant(2.5e-06)",
            "e = f32[9] constant({...})",
        )
    )
    assert instructions["p"].attrs == {"index": "0", "parameter_replication": "{false}"}
    assert [instructions[n].attrs["literal"] for n in "ctse"] == [
        "{ { 1, 2 }, { -inf, nan } }",
        "(1, true)",
        "2.5e-06",
        "{...}",
    ]
    assert all(node.operands == () for node in instructions.values())


def test_parameters_stand_in_their_own_order():
    module = hlo.read(
        entry("b = f32[] parameter(1)", "a = s32[] parameter(0)", "c = f32[] copy(b)")
    )
    assert [value.name for value in module.body().parameters] == ["a", "b"]
    assert [node.id for node in module.body().nodes] == ["b", "a", "c"]
    assert module.body().results == ("c",)


def test_unknown_opcodes_and_attributes_are_kept():
    instructions = nodes(
        entry("a = f32[] parameter(0)", 'b = f32[] frobnicate-2(a), mode={x={"}"}}, flag, k=a:b->c')
    )
    assert instructions["b"].opcode == "frobnicate-2"
    assert instructions["b"].attrs == {"mode": '{x={"}"}}', "flag": "", "k": "a:b->c"}


def test_unreadable_lines_are_kept():
    module = hlo.read(entry("a = f32[] parameter(0)", "??? what", "b = f32[] copy(a"))
    assert module.unknown == ("??? what", "b = f32[] copy(a")
    assert [node.id for node in module.nodes()] == ["a"]


def test_quotes_hide_what_is_in_them():
    line = (
        'c = f32[] custom-call(a), custom_call_target="x, to_apply=%f, }", '
        'metadata={op_name="p[\\\'w\\\'], metadata={\\"" source_file="/a/b.py" source_line=7}'
    )
    node = nodes(entry("a = f32[] parameter(0)", line))["c"]
    assert node.regions == ()
    assert node.attrs["custom_call_target"] == '"x, to_apply=%f, }"'
    assert node.scope == "p['w'], metadata={\""
    assert [(span.file, span.line) for span in node.spans] == [("b.py", 7)]


def test_called_computations_in_printed_order():
    bodies = "".join(
        f"%{name} {{\n  %{name}.p = f32[] parameter(0)\n}}\n\n" for name in ("f", "g", "h")
    )
    text = (
        HEAD
        + bodies
        + (
            "ENTRY %e {\n"
            "  %i = s32[] parameter(0)\n"
            "  %x = f32[] parameter(1)\n"
            "  %c = f32[] conditional(%i, %x, %x, %x), branch_computations={%g, %f, %g}\n"
            "  %w = f32[] while(%c), condition=%h, body=%f\n"
            '  %k = f32[] custom-call(%w), custom_call_target="t", called_computations={%h}\n'
            "  %p = pred[] parameter(2)\n"
            "  %d = f32[] conditional(%p, %x, %x), true_computation=%f, false_computation=%h\n"
            "  ROOT %s = f32[] select-and-scatter(%k, %d, %x), window={size=2}, select=%g, "
            "scatter=%f\n"
            "}\n"
        )
    )
    instructions = nodes(text)
    assert {n: instructions[n].regions for n in "cwkds"} == {
        "c": ("g", "f", "g"),
        "w": ("h", "f"),
        "k": ("h",),
        "d": ("f", "h"),
        "s": ("g", "f"),
    }
    assert next(iter(hlo.read(text).regions)) == "e"


def test_the_module_line_and_what_is_printed_behind_a_computation():
    text = (
        "HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, "
        'frontend_attributes={a="x, }"}\n\n'
        '%f {\n  %p = f32[] parameter(0)\n}, execution_thread="host"\n\n'
        "ENTRY %e {\n  %q = f32[] parameter(0)\n}\n"
    )
    assert hlo.read(text).attrs == {
        "is_scheduled": "true",
        "input_output_alias": "{ {0}: (0, {}, may-alias) }",
        "frontend_attributes": '{a="x, }"}',
        "f.execution_thread": '"host"',
    }


def test_tuple_elements_that_jax_0_12_leaves_out():
    instructions = nodes(
        entry(
            "%t = (f32[2]{0}, (s32[], pred[])) parameter(0)",
            "%a = f32[2]{0} add(%t#0, %t#0)",
            'ROOT %b = s32[] negate(%t#1#0), metadata={op_name="n"}',
        )
    )
    assert list(instructions) == ["t", "t#0", "a", "t#1", "t#1#0", "b"]
    assert instructions["t#1#0"].operands == ("t#1",)
    assert instructions["t#1#0"].attrs == {"index": "0"}
    assert str(instructions["t#1#0"].type) == "s32[]"
    assert instructions["t#1#0"].text == ""


def test_a_tuple_element_that_cannot_be_is_kept_as_unknown():
    module = hlo.read(
        entry("t = (f32[]) parameter(0)", "a = f32[] copy(t#1)", "b = f32[] copy(x#0)")
    )
    assert module.unknown == ("a = f32[] copy(t#1)", "b = f32[] copy(x#0)")


TABLES = (TEXTS / "tables_of_frames.hlo.txt").read_text()


@pytest.mark.parametrize("parents", [(1, 2, 3, 4), (0, 1, 2, 3)], ids=["as printed", "as meant"])
def test_frames_innermost_first_without_jax(parents):
    text = (
        HEAD.rstrip("\n")
        + TABLES.format(*parents)
        + (
            '\nENTRY e {\n  a = f32[] parameter(0), metadata={op_name="x" stack_frame_id=4}\n'
            '  b = f32[] copy(a), metadata={op_name="x;y" stack_frame_id=2}, backend_config={}\n}\n'
        )
    )
    instructions = nodes(text)
    spans = instructions["a"].spans
    assert [(s.file, s.line, s.column, s.end_column, s.library) for s in spans] == [
        ("flax/core.py", 7, 4, -1, True),
        ("model.py", 4, 11, 3, False),
        ("model.py", 20, 0, 6, False),
    ]
    assert instructions["a"].owner.line == 4
    assert instructions["b"].spans == spans[1:]
    assert instructions["b"].scope == "x;y"


def test_scopes_that_differ_behind_a_brace_are_kept_apart():
    text = HEAD + (
        "ENTRY e {\n  a = f32[] parameter(0)\n"
        '  b = f32[] copy(a), metadata={op_name="jit(f)/{k}/_jls3_/sin" stack_frame_id=2}\n'
        '  c = f32[] copy(b), metadata={op_name="jit(f)/{k}/_jls4_/cos" stack_frame_id=2}\n}\n'
    )
    found = nodes(text)
    assert (found["b"].scope, found["b"].stamps) == ("jit(f)/{k}/sin", (("s3",),))
    assert (found["c"].scope, found["c"].stamps) == ("jit(f)/{k}/cos", (("s4",),))


def test_a_frame_that_goes_round_in_circles_ends():
    frames = Frames()
    frames.read(
        ["StackFrames", "1 {file_location_id=1 parent_frame_id=9}", "9 {parent_frame_id=9}"]
    )
    assert frames.stack("9") == ()


FEATURES = json.loads((RECORDS / "hlo_words.json").read_text())


@pytest.mark.parametrize("opcode", FEATURES["opcodes"])
def test_every_opcode(opcode):
    """Each is read as it is, by the fast path and token by token."""
    lines = ["a = f32[] parameter(0)", f"b = f32[] {opcode}(a)", f"c = f32[] {opcode}(f32[] %a)"]
    if opcode in ("parameter", "constant"):
        lines[1:] = [f"b = f32[] {opcode}(1)", f"c = f32[] {opcode}( 2 )"]
    instructions = nodes(entry(*lines))
    assert (instructions["b"].opcode, instructions["c"].opcode) == (opcode, opcode)


@pytest.mark.parametrize("key", FEATURES["attributes"])
def test_every_attribute(key):
    """The text of every attribute is preserved."""
    values = ["{1,2}", '"a, {b"', "true", "bf01_io01->bf01", "[2,4]<=[8]", '{"k":[{"x":"\\"}"}]}']
    for value in values:
        line = f"b = f32[] copy(a), x=1, {key}={value}, y=2"
        module = hlo.read(entry("a = f32[] parameter(0)", line))
        assert module.body().nodes[1].attrs == {"x": "1", key: value, "y": "2"}
        assert module.unknown == ()


@pytest.mark.parametrize("device", ["cpu", "gpu-h100", "tpu-v5e-2x2"])
def test_attributes_of_recorded_instructions_are_those_of_their_text(device):
    recorded = jaxlens.load(RECORDS / f"scan_rnn.{device}.jaxlens")
    modules = [hlo.read(stage.raw) for stage in (recorded.hlo, recorded.optimized)]
    every = [node for module in modules for node in module.nodes()]
    assert sum(node.said is not None for node in every) > len(every) / 2
    for node in every:
        assert [*node.attrs.items()] == [*instruction_attributes(node.text).items()]


SAID = {
    "copy(a)": {},
    "parameter(3)": {"index": "3"},
    "constant(0), y={1,2}": {"literal": "0", "y": "{1,2}"},
    'copy(a), x=1, metadata={op_name="f/}b" stack_frame_id=3}, y={"c}"}, x=2': {
        "x": "1",
        "metadata": '{op_name="f/}b" stack_frame_id=3}',
        "y": '{"c}"}',
    },
    'copy(a), metadata={op_name="_jls7_" stack_frame_id=3}, y="b"': {
        "metadata": "{stack_frame_id=3}",
        "y": '"b"',
    },
    'copy(a), x=1, metadata={op_name="_jls7_"}, y="b"': {"x": "1", "y": '"b"'},
    'parameter(0), metadata={op_name="f/_jls7_/b"}': {
        "index": "0",
        "metadata": '{op_name="f/b"}',
    },
}


@pytest.mark.parametrize("said", SAID)
def test_attributes_without_stamps(said):
    module = hlo.read(entry("a = f32[] parameter(0)", f"b = f32[] {said}"))
    node = module.body().nodes[1]
    assert node.said is not None
    assert [*node.attrs.items()] == [*SAID[said].items()]
    assert node.attrs == instruction_attributes(node.text)


def test_split_and_attributes_and_escapes():
    assert split('a, {b, c}, "d, \\"e", f[g, h](i, j)') == [
        "a",
        "{b, c}",
        '"d, \\"e"',
        "f[g, h](i, j)",
    ]
    assert attributes("a=1, b={c=2, d=3}") == {"a": "1", "b": "{c=2, d=3}"}
    assert unescape(r"p[\'w\'] \303\251 \\ \n \"") == "p['w'] é \\ \n \""


BROKEN = {
    "": "expected HLO text that begins with 'HloModule NAME', got ''",
    "module @x {}": "expected HLO text that begins with 'HloModule NAME', got 'module @x {}'",
    **dict.fromkeys(
        (
            "HloModule m",
            HEAD + "ENTRY e {\n  a = f32[] parameter(0)\n",
            HEAD + "e {\n}\nf {\n}\n",
            HEAD + "ENTRY e {\n}\nENTRY f {\n}\n",
            HEAD + "e {\n}\ne {\n}\n",
            HEAD + "e {\nf {\n}\n",
        ),
        "the HLO text of m is not as XLA prints it: one computation is ENTRY, and each ends",
    ),
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_text_is_one_line(text):
    with pytest.raises(ReadError) as error:
        hlo.read(text)
    assert BROKEN[text] in str(error.value)
    assert "\n" not in str(error.value)


FOREIGN = [
    *'{}()"\n\\[#=\x00é%\r\t',
    *(", ", "/*", "ENTRY ", "9" * 5000, " = ", "metadata={", "ROOT "),
]


def mutated(text: str, dice: random.Random) -> str:
    """Text with a few cuts, swaps, doubled or foreign pieces."""
    for _ in range(dice.randint(1, 6)):
        i, j = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + dice.choice([1, 1, 3, 40, 400]))
        piece = dice.choice(["", text[i:j] * 2, *FOREIGN])
        text = text[:i] + piece + text[j:]
    return text


def test_mutated_text_is_read_or_refused_in_time():
    dice = random.Random(0)
    read = 0
    for _ in range(250):
        text = mutated(SAMPLE, dice)
        start = time.process_time()
        with suppress(ReadError):
            module = hlo.read(text)
            read += 1
            assert all(isinstance(dict(node.attrs), dict) for node in module.nodes())
            assert isinstance(check(module), list)
        assert time.process_time() - start < 2
    assert read > 50


HOSTILE = {
    "open brackets": "a = f32[] add(" + "(" * 200_000,
    "open quotes": "a = f32[] add(b), x=" + '\\"' * 200_000 + '"' * 99_999,
    "nested types": "a = " + "(" * 100_000 + ")" * 100_000 + " copy(b)",
    "nested attributes": "a = f32[] copy(b), x=" + "{" * 100_000 + "}" * 100_000,
    "arrows": "f (" + ") -> (" * 100_000,
    "long literal": "a = f32[9] constant({" + "1, " * 300_000 + "2})",
    "spaces": "a = f32[]" + " " * 300_000 + "copy(b)",
    "commas": "a = f32[] copy(" + "b, " * 100_000,
    "unclosed lines": "a = f32[] constant({\n" * 20_000,
    "comments": "a = f32[] copy(" + "/*" * 100_000 + ")",
    "elements": "a = (f32[]) copy(" + "a#0" + "#0" * 50_000 + ")",
    "hyphens": "a = f32[] " + "x-" * 100_000,
    "metadata": "a = f32[] copy(b)" + ", metadata={op_name=" * 50_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_take_linear_time(name):
    start = time.process_time()
    with suppress(ReadError):
        for node in hlo.read(entry("b = f32[] parameter(0)", HOSTILE[name])).nodes():
            len(node.attrs)
    assert time.process_time() - start < 2


def test_five_thousand_nested_calls():
    depth = 5000
    body = ["%c0 {\n  %p0 = f32[] parameter(0)\n}\n"]
    for i in range(1, depth):
        body.append(
            f"%c{i} {{\n  %p{i} = f32[] parameter(0)\n"
            f"  ROOT %r{i} = f32[] call(%p{i}), to_apply=%c{i - 1}\n}}\n"
        )
    text = HEAD + "\n".join(body[:-1]) + "\nENTRY " + body[-1]
    module = hlo.read(text)
    assert list(module.regions) == [f"c{i}" for i in range(depth - 1, -1, -1)]
    assert check(module) == []


def test_computations_that_nothing_reaches_and_circles():
    text = HEAD + (
        "%a {\n  %ap = f32[] parameter(0)\n  %ac = f32[] call(%ap), to_apply=%b\n}\n"
        "%b {\n  %bp = f32[] parameter(0)\n}\n"
        "ENTRY %e {\n  %ep = f32[] parameter(0)\n  %ec = f32[] call(%ep), to_apply=%b\n}\n"
    )
    assert list(hlo.read(text).regions) == ["e", "a", "b"]
    circle = text.replace("%bp = f32[] parameter(0)", "%bp = f32[] call(%bp), to_apply=%a")
    module = hlo.read(circle)
    assert set(module.regions) == {"e", "a", "b"}
    assert any("stands before" in broken for broken in check(module))


def test_late_fields_are_fields():
    """Copying, comparing and pickling compute lazy fields first."""
    module = hlo.read(SAMPLE)
    assert pickle.loads(pickle.dumps(module)) == module == copy.deepcopy(module)
    assert replace(module) == hlo.read(SAMPLE)
    node = hlo.read(SAMPLE).body().nodes[-1]
    assert replace(node, scope="x").scope == "x"
    assert node.scope != "x"
    with pytest.raises(AttributeError):
        node.nothing


def test_tabs_and_blanks_round_lines_do_not_matter():
    copied = hlo.read(f"\n{SAMPLE}".replace("\n  ", "\n").replace("\n", " \r\n\t"))
    printed = hlo.read(SAMPLE)
    assert list(copied.regions) == list(printed.regions)
    assert [node.id for node in copied.nodes()] == [node.id for node in printed.nodes()]
    assert [node.spans for node in copied.nodes()] == [node.spans for node in printed.nodes()]
    assert [node.attrs for node in copied.nodes()] == [node.attrs for node in printed.nodes()]
    assert copied.unknown == printed.unknown == ()


@pytest.mark.parametrize("piece", ["%a = ", " ", "a =", "ROOT ", "(", '"', "/*", "//", " = "])
def test_instructions_on_one_line_take_linear_time(piece) -> None:
    """Four times the text takes about four times as long, not sixteen times."""

    def took(size: int) -> float:
        line = (piece * size)[:size]
        start = time.process_time()
        instructions(line)
        return time.process_time() - start

    short, long = took(50_000), took(200_000)
    assert long < 8 * short + 0.1
