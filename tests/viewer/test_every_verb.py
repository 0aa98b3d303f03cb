"""Every verb and watch gives a View, with all its forms."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.report import Report, Table
from jaxlens.views.view import View

X = jnp.ones((4, 4))
# What is no answer: programs, the widget, errors, and a record, which `runs` answers about.
OTHERS = "Capture Explorer LensError RecompileError View __version__ capture course load record "
OTHERS += "without"


def f(x):
    return jnp.tanh(x @ x).sum()


def failed():
    try:
        jax.jit(lambda x: 1 if x.sum() > 0 else 2)(X)
    except jax.errors.TracerBoolConversionError as error:
        return jaxlens.explain(error)


def watched(block):
    with block as view:
        jax.jit(lambda x: x + 1)(X)
    return view


def recorded(folder):
    watched(jaxlens.record(folder / "record"))
    return jaxlens.runs(folder / "record")


def edited(folder):
    cap = jaxlens.capture(f, X)
    text = jaxlens.edit(cap, "stablehlo")
    return jaxlens.edit(cap, "stablehlo", text.replace("stablehlo.tanh", "stablehlo.logistic"))


def extracted(folder):
    cap = jaxlens.capture(lambda x: jnp.tanh(x) * 2 + 1, X)
    return jaxlens.extract(cap, cap.kernels[0].name, run=1)


SPECIAL = {
    "arrays": lambda folder: jaxlens.arrays(),
    "assert_compiles": lambda folder: watched(jaxlens.assert_compiles(1)),
    "compare": lambda folder: jaxlens.compare(jaxlens.capture(f, X), jaxlens.capture(f, X + 1)),
    "edit": edited,
    "explain": lambda folder: failed(),
    "extract": extracted,
    "fits": lambda folder: jaxlens.fits(f, X, device="1 MB"),
    "glossary": lambda folder: jaxlens.glossary("thunk"),
    "ladder": lambda folder: jaxlens.ladder(jax.grad(f), X),
    "recompiles": lambda folder: watched(jaxlens.recompiles()),
    "reproducer": lambda folder: jaxlens.reproducer(jaxlens.capture(f, X), folder / "repro.py"),
    "runs": recorded,
    "side_by_side": lambda folder: jaxlens.side_by_side(jaxlens.capture(f, X)),
    "sweep": lambda folder: jaxlens.sweep(f, over={"x": [X, X[:2, :2]]}, executor=1),
}


@pytest.mark.parametrize("verb", sorted({*jaxlens.__all__} - {*OTHERS.split()}))
def test_every_verb_gives_a_view(verb, tmp_path):
    make = SPECIAL.get(verb, lambda folder: getattr(jaxlens, verb)(f, X))
    view = make(tmp_path)
    assert isinstance(view, View)
    assert view.facts is not None
    assert isinstance(view.report, Report)
    assert all(isinstance(table, Table) for table in view.tables)
    assert view.html().startswith("<")
    assert view.json()["verb"] == view.document.verb
    assert view.md().startswith("**")
    assert str(view)
    assert "</html>" in view.save(tmp_path / "view.html").read_text()
    if view.pictures:
        assert view.svg().startswith("<")
    else:
        with pytest.raises(UnavailableError, match="holds no drawing"):
            view.svg()


def test_facts_of_a_look_are_the_figures_of_its_program():
    assert jaxlens.explore(f, X).kernels == jaxlens.receipt(f, X).kernels
    cap = jaxlens.capture(f, X)
    assert jaxlens.compile(cap, memory=True).peak == jaxlens.memory(cap).peak
    with pytest.raises(AttributeError, match=r"it has .*equations"):
        jaxlens.jaxpr(f, X).equation
