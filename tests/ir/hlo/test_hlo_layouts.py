"""HLO text that is not laid out as XLA prints it, against XLA's own parser, and odd names."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import ReadError
from jaxlens.ir.hlo import reader as hlo

pytestmark = pytest.mark.backend

MAIN = "HloModule m\n\nENTRY e {{\n{}\n}}\n"
A, B = "a = f32[2]{0} parameter(0)", "b = f32[2]{0} add(a, a)"
SCALE = 'ROOT c = f32[2]{0} multiply(b, a), metadata={op_name="x = y"}'
TEXTS = {
    "two on a line": MAIN.format(f"  {A} {B}\n  {SCALE}"),
    "all on a line": MAIN.format(f"  {A} {B} {SCALE}"),
    "behind attributes": MAIN.format(
        f"  {A}, sharding={{replicated}} {B}, backend_config={{}} ROOT r = f32[2,3]{{1,0}} "
        "broadcast(b), dimensions={0}"
    ),
    "behind metadata": MAIN.format(f'  {A}, metadata={{op_name="a"}} {B}\n  {SCALE}'),
    "with percent signs": MAIN.format(
        "  %a = f32[2]{0} parameter(0) ROOT %b = f32[2]{0} add(%a, %a)"
    ),
    "behind a literal": MAIN.format(
        "  k = f32[2]{0} constant({1, 2}) ROOT b = f32[2]{0} add(k, k)"
    ),
    "a tuple": MAIN.format(
        f"  {A} t = (f32[2]{{0}}, f32[2]{{0}}) tuple(a, a) "
        "ROOT g = f32[2]{0} get-tuple-element(t), index=1"
    ),
    "in quotes": MAIN.format(f'  {A}, metadata={{op_name="k b = f32[] add(c)"}}\n  ROOT {B}'),
    "in a comment": MAIN.format(f"  {A} // z = f32[2]{{0}} add(a, a)\n  ROOT {B}"),
    "between comments": MAIN.format(f"  {A} /* z = f32[2]{{0}} add(a, a) */ ROOT {B}"),
}


def by_xla(text: str):
    parser = pytest.importorskip("jaxlib._hlo")
    return parser.hlo_module_from_text(text)


@pytest.mark.parametrize("name", TEXTS)
def test_instructions_are_those_that_xla_reads(name) -> None:
    text = TEXTS[name]
    computations = by_xla(text).computations()
    want = sorted(i.name for computation in computations for i in computation.instructions())
    module = hlo.read(text)
    assert sorted(node.id for node in module.nodes()) == want
    assert module.unknown == ()
    assert all(node.type.shape is not None and node.text.strip() for node in module.nodes())


def test_what_xla_refuses_is_refused() -> None:
    for text in ("HloModule m\n\n", "HloModule m\n\ne {\n}\nf {\n}\n"):
        with pytest.raises(Exception, match="parsing"):
            by_xla(text)
        with pytest.raises(ReadError, match="one computation is ENTRY"):
            hlo.read(text)


@pytest.mark.parametrize("name", ["", " ", 'a"b', "<lambda>", "ñ", "main", "a(b", "{", "@x"])
def test_an_inner_function_may_have_any_name(name) -> None:
    def inner(x):
        return jnp.sin(x) * 2

    inner.__name__ = name
    called = jax.jit(inner)
    view = jaxlens.explore(lambda x: called(x) + called(x * 2), jnp.ones(8))
    assert "sine" in view.text(full=True)
    assert len(view.html()) > 1000
