"""A changed text is compiled and run on the same arguments; NumPy says what it computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import core
from jaxlens.errors import OptionError, ReadError, UnavailableError
from jaxlens.questions.variants.edited import changes

pytestmark = pytest.mark.reads_jax

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
B = np.arange(20.0, dtype=np.float32)  # longer than what listings show of a constant


def f(params, x):
    return {"y": jnp.tanh(x * params["w"]), "z": x.sum() + B[3]}


DONATED = jnp.asarray(X)


@pytest.fixture(scope="module")
def cap():
    donating = jax.jit(f, donate_argnums=1)
    yield jaxlens.capture(donating, {"unused": 1.0, "w": jnp.float32(2)}, DONATED)
    assert np.asarray(DONATED).tobytes() == X.tobytes()


@pytest.mark.parametrize("stage", ["stablehlo", "hlo", "optimized"])
def test_the_text_itself_gives_equal_bits(cap, stage):
    edited = jaxlens.edit(cap, stage, jaxlens.edit(cap, stage), run=1)
    assert edited.equal
    assert [o.differing for o in edited.outputs] == [0, 0]
    assert edited.kernels[0] == edited.kernels[1]
    assert "both programs ran 1 time on the same arguments" in repr(edited)
    assert "equal bit for bit" in repr(edited)


@pytest.mark.parametrize(
    ("stage", "old", "new", "function"),
    [
        ("stablehlo", "stablehlo.tanh", "stablehlo.sine", np.sin),
        ("hlo", " tanh(", " cosine(", np.cos),
        ("optimized", " tanh(", " negate(", np.negative),
    ],
)
def test_a_changed_text_computes_what_it_says(cap, stage, old, new, function):
    text = jaxlens.edit(cap, stage)
    assert old in text
    assert f.__code__.co_filename not in text
    edited = jaxlens.edit(cap, stage, text.replace(old, new), run=1)
    y, z = edited.outputs
    assert (y.name, y.differing, z.differing) == ("result['y']", 12, 0)
    expected = np.abs(np.tanh(X * 2) - function(X * 2)).max()
    assert y.largest == pytest.approx(expected, rel=1e-4)
    assert edited.equal is False
    assert len(edited.seconds) == len(edited.edited_seconds) == 1
    assert new.removeprefix("stablehlo.").strip(" (") + "(" in edited.capture.optimized.text
    assert "result['y'] in 12 of 12 elements" in repr(edited)
    assert "result[&#x27;y&#x27;]" in edited.html() or "result['y']" in edited.html()


def test_run_0_compiles_alone_and_shapes_suffice():
    cap = jaxlens.capture(lambda x: x * 2, jax.ShapeDtypeStruct((2,), jnp.float32))
    text = jaxlens.edit(cap, "stablehlo")
    edited = jaxlens.edit(
        cap, "stablehlo", text.replace("stablehlo.multiply", "stablehlo.add"), run=0
    )
    assert edited.equal is None
    assert "not run" in repr(edited)
    with pytest.raises(OptionError, match="only the shape"):
        jaxlens.edit(cap, "stablehlo", text)


def test_errors_have_the_line_and_column(cap):
    text = jaxlens.edit(cap, "stablehlo")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "stablehlo.tanh" in row)
    with pytest.raises(ReadError, match=rf"^line {line}, column \d+ of the StableHLO: .*tanz"):
        jaxlens.edit(cap, "stablehlo", text.replace("stablehlo.tanh", "stablehlo.tanz"))
    text = jaxlens.edit(cap, "hlo")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if " tanh(" in row)
    with pytest.raises(ReadError, match=rf"^line {line}, column \d+ of the HLO: .*tanz"):
        jaxlens.edit(cap, "hlo", text.replace(" tanh(", " tanz("))
    with pytest.raises(OptionError, match=r"the arguments .*4,3.* got .*5,3"):
        jaxlens.edit(cap, "stablehlo", jaxlens.edit(cap, "stablehlo").replace("4x3", "5x3"))
    with pytest.raises(OptionError, match="expected StableHLO, got HLO"):
        jaxlens.edit(cap, "stablehlo", text)
    with pytest.raises(OptionError, match="no text 'jaxpr'"):
        jaxlens.edit(cap, "jaxpr")
    with pytest.raises(UnavailableError, match="holds no"):
        jaxlens.edit(jaxlens.capture(jaxlens.edit(cap, "optimized")), "optimized")


def test_an_edited_program_is_edited_again_and_the_core(cap):
    first = jaxlens.capture(lambda x: core.numpy.sum(x * 3), core.array([1.0, 2.0]))
    text = jaxlens.edit(first, "stablehlo").replace("stablehlo.multiply", "stablehlo.subtract")
    second = jaxlens.edit(first, "stablehlo", text, run=1)
    assert second.outputs[0].largest == 12.0  # (1-3) + (2-3) = -3, and 9
    third = jaxlens.edit(
        second.capture, "optimized", jaxlens.edit(second.capture, "optimized"), run=1
    )
    assert third.equal


def test_outputs_that_are_gone_new_or_not_numbers():
    nan = np.float32([np.nan, 1])
    before = (nan, nan, nan, np.int8([1, 2]))
    after = (nan, np.float32([1, 1]), np.float16([1, 2]))
    same, other, typed, gone = changes("abcd", before, after)
    assert same.equal
    assert (other.differing, other.largest) == (1, None)
    assert (typed.differing, typed.after) == (None, "float16[2]")
    assert (gone.before, gone.after) == ("int8[2]", "")
