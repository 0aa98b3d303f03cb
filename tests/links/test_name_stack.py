"""Which transforms produced an equation, from JAX's name stacks."""

import pytest

from jaxlens.ir.graph import Module, Region
from jaxlens.links.name_stack import equation_transforms, module_path, transforms
from tests.support import linked_modules as by_hand


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        ("jit(f)/transpose(jvp(vmap(g)))/mul", ("transpose", "jvp", "vmap")),
        ("jvp(layer)/vmap()", ("jvp", "vmap")),
        (
            "transpose(jvp(lay))/vmap(jvp(lay))/vmap()/checkpoint/mul",
            ("transpose", "jvp", "vmap", "remat"),
        ),
        ("rematted_computation/sin", ("remat",)),
        ("jit(jvp)/add", ()),  # a function of the user's that has such a name
        ("vmap/jvp/add", ()),  # and named scopes that do
        ("while/body/closed_call", ()),
        ("jit(f)/jvp()/a;jit(f)/transpose(jvp())/b", ("jvp",)),
        ("", ()),
    ],
)
def test_transforms_outermost_first(scope: str, wanted: tuple[str, ...]) -> None:
    assert transforms(scope) == wanted


def program() -> Module:
    main = (
        by_hand.node("e0", "custom_jvp_call", "x", "a", regions=("rule",), scope="jvp()"),
        by_hand.node("e1", "remat2", "a", "b", regions=("again",), scope="transpose(jvp())"),
        by_hand.node("e2", "add", "b", "c", scope=""),
    )
    rule = (by_hand.node("e3", "max", "p", "q"),)
    again = (by_hand.node("e4", "cos", "r", "s", scope="rematted_computation"),)
    regions = {
        name: Region(name, (), nodes, (), "jaxpr")
        for name, nodes in (("main", main), ("rule", rule), ("again", again))
    }
    return Module("f", "jaxpr", "main", regions)


def test_an_equation_in_a_body_has_the_transforms_of_its_call_first() -> None:
    assert equation_transforms(program()) == {
        "e0": ("jvp",),
        "e3": ("jvp", "custom_jvp"),
        "e1": ("transpose", "jvp"),
        "e4": ("transpose", "jvp", "remat"),
    }


def test_a_backward_equation_names_the_text_it_is_the_derivative_of() -> None:
    spans = by_hand.line(7, 12)
    backward = by_hand.node("e0", "mul", "x", "a", scope="transpose(jvp())", spans=spans)
    forward = by_hand.node("e1", "mul", "x", "b", scope="jvp()", spans=spans)
    assert "transpose" in transforms(backward.scope)
    assert "transpose" not in transforms(forward.scope)
    text = backward.owner
    assert text is not None
    assert (text.line, text.column, text.end_column) == (7, 4, 9)


def test_the_subscripts_of_an_einsum_are_no_module():
    assert module_path("Model/Attention/...qhd,...khd->...hqk", ()) == (
        ("Model", "Attention"),
        False,
    )
    assert module_path("transpose(jvp(Model))/bij,jk->bik", ()) == (("Model",), True)
    assert module_path("jvp(ij,jk)", ()) == ((), False)
