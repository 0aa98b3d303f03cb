"""Which transforms produced an equation, from JAX's name stacks."""

import pytest

from jaxlens.ir.graph import Module, Region, Span
from jaxlens.links.call_stacks import equation_transforms
from jaxlens.links.name_stack import module_path, transforms
from tests.support import linked_modules as by_hand

pytestmark = pytest.mark.reads_jax


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


def frame(function, line, file="model.py"):
    return Span(file, line, function=function, library="/" in file)


def test_handlers_and_metaclasses_of_libraries_are_no_modules():
    frames = [
        frame("Linear.__call__", 10, "equinox/nn/_linear.py"),
        frame("MultiheadAttention._project", 9, "equinox/nn/_attention.py"),
        frame("BoundMethod.__call__", 8, "equinox/_module/_prebuilt.py"),
        frame("DistributionMeta.__call__", 7, "numpyro/distributions/distribution.py"),
        frame("Messenger.__call__", 6, "numpyro/primitives.py"),
        frame("Net.__call__", 5),
        frame("loss", 4),
    ]
    path, _ = module_path("jvp()", frames)
    assert path == ("Net (model.py:4)", "Linear (numpyro/distributions/distribution.py:7)")


def test_frames_that_start_again_are_read_once():
    once = [frame("Pool.__call__", 9), frame("Net.__call__", 5), frame("loss", 4)]
    assert module_path("", [*once, *once])[0] == module_path("", once)[0]
