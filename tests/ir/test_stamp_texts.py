"""Stamps are removed from every kind of text without a trace."""

import pytest

from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.stamps import bare, escaped, plain, stamp, stamps, unstamped

SCOPES = {
    "jit(f)/_jls7_/mul": "jit(f)/mul",
    "jit(f)/jvp()/_jls7_/mul": "jit(f)/jvp()/mul",
    "jit(f)/jvp(_jle7_)/mul": "jit(f)/jvp()/mul",
    "jit(f)/_jls5_/jit(relu)/_jls9_/max": "jit(f)/jit(relu)/max",
    "_jls7_/max": "max",
    "_jls7_": "",
    "_jls7_/_jls8_/mul": "mul",
    "jit(f)/a//_jls7_/b": "jit(f)/a//b",
    "a/_jls7_/": "a/",
    "jit(f)/_jls7_/jvp(a/b)": "jit(f)/jvp(a/b)",
    "jit(f)/_jls7_/mul;jit(f)/_jls9_/mul": "jit(f)/mul",
    "jit(f)/_jls7_/mul;jit(f)/_jls9_/add": "jit(f)/mul;jit(f)/add",
    "jit(f)/_jls7_/mul;_jls9_": "jit(f)/mul",
    "jit(f)/mul;jit(f)/mul": "jit(f)/mul;jit(f)/mul",
    "jit(f)/_jl0s3_/mul": "jit(f)/_jls3_/mul",
    "jit(f)/_jl00e3_/_jls1_/mul": "jit(f)/_jl0e3_/mul",
    "jit(f)/_jls1_/jit(g)/_jls4_/_jlk_/jit(g)/pallas_call": "jit(f)/jit(g)/pallas_call",
    "_jls4_/_jlk_/closed_call/pallas_call;_jls9_": "pallas_call",
    "_jls4_//call/_jls0_//sine": "",
    "_jls4_//custom-call/jit(f)/_jls1_/cos": "jit(f)/cos",
    "jit(f)/_jls4_//call/b/_jls1_/cos": "jit(f)/b/cos",
    "jit(f)/_jls4_//call": "jit(f)",
    "_jls1_//multiply;_jls2_//add": "",
    "jit(f)/_jls7_/mul;_jls9_//add": "jit(f)/mul",
    "_jl/x": "_jl/x",
    "": "",
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope(scope):
    assert plain(scope) == SCOPES[scope]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_line_of_hlo(scope):
    line = '  %_jls3_.1 = f32[3]{0} add(%a, %b), metadata={op_name="SCOPE" stack_frame_id=2}\n'
    kept = SCOPES[scope]
    if kept:
        assert unstamped(line.replace("SCOPE", scope)) == line.replace("SCOPE", kept)
    elif scope:
        assert unstamped(line.replace("SCOPE", scope)) == line.replace('op_name="SCOPE" ', "")
        alone = line.replace(" stack_frame_id=2", "")
        whole = alone.replace(', metadata={op_name="SCOPE"}', "")
        assert unstamped(alone.replace("SCOPE", scope)) == whole


@pytest.mark.parametrize("text", ["_jls3_", "_jl0s3_", "a/_jle12_b", "_jl", "x_jls_", "_jl0_jls0_"])
def test_what_only_looks_like_a_stamp_comes_back(text):
    scope = f"jit(f)/{text}/mul"
    assert stamps(escaped(scope)) == ()
    assert plain(escaped(scope)) == scope
    stamped = escaped(scope).replace("/mul", f"/{stamp('s7')}/mul")
    assert plain(stamped) == bare(stamped) == scope
    assert stamps(stamped) == (("s7",),)


def test_paths_are_in_order_and_each_once():
    scope = "jit(f)/_jls5_/jit(relu)/_jls9_/max;jit(f)/_jls7_/mul;x;jit(g)/_jls7_/mul"
    assert stamps(scope) == (("s5", "s9"), ("s7",))


def test_text_without_stamps_is_the_text_itself():
    text = 'op_name="jit(f)/mul"' * 3
    assert unstamped(text) is text
    assert bare(text) is text


TEXT = """HloModule jit_f

ENTRY %main.5 (x.1: f32[3]) -> f32[3] {
  %x.1 = f32[3]{0} parameter(0), metadata={op_name="x"}
  %a.2 = f32[3]{0} add(%x.1, %x.1), metadata={op_name="jit(f)/_jls1_/add;jit(f)/_jls2_/add"}
  %c.4 = f32[3]{0} sine(%a.2), metadata={op_name="_jls3_"}
  ROOT %b.3 = f32[3]{0} multiply(%a.2, %c.4), metadata={op_name="jit(f)/_jls4_/jit(g)/_jls5_/mul"}
}
"""


def test_nodes_have_stamps_and_show_none():
    nodes = {node.id: node for node in hlo.read(TEXT).nodes()}
    assert nodes["a.2"].stamps == (("s1",), ("s2",))
    assert nodes["b.3"].stamps == (("s4", "s5"),)
    assert [nodes[name].scope for name in ("x.1", "a.2", "c.4", "b.3")] == [
        "x",
        "jit(f)/add",
        "",
        "jit(f)/jit(g)/mul",
    ]
    assert nodes["c.4"].text.strip() == "%c.4 = f32[3]{0} sine(%a.2)"
    assert nodes["a.2"].attrs == {"metadata": '{op_name="jit(f)/add"}'}
    assert not any("_jl" in f"{node.text}{dict(node.attrs)}" for node in nodes.values())


def test_frames_that_merging_lost_come_from_ops_of_one_place():
    from jaxlens.ir.graph import Span

    place, other = (Span("a.py", 3),), (Span("a.py", 4),)
    same = {node.id: node.spans for node in hlo.read(TEXT, origins=lambda op: place).nodes()}
    assert same["a.2"] == place
    apart = hlo.read(TEXT, origins=lambda op: place if op == "s1" else other)
    assert {node.id: node.spans for node in apart.nodes()}["a.2"] == ()


def test_what_collectives_were_combined_of() -> None:
    scope = "jit(f)/(jvp()/_jls11_/reduce_sum:transpose(jvp())/_jls25_/dot_general:_jls19_/mul)"
    assert stamps(scope) == (("s11",), ("s25",), ("s19",))
    assert stamps("jit(f)/_jls1_/(a/_jls2_:b/_jls3_)") == (("s1", "s2"), ("s1", "s3"))
    assert stamps("named(a:b)/_jls2_/x") == (("s2",),)
    assert stamps("_jls2_/(a:b)") == (("s2",),)
    assert stamps("_jls2_/a:b)") == (("s2",),)
