"""What a user wrote, opened or was sent is tried in a child process before XLA reads it here."""

import random
import re

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import compat
from jaxlens.errors import ReadError, why_unavailable
from jaxlens.stages.child import child as other_process
from jaxlens.stages.child import first_in_child

pytestmark = pytest.mark.reads_jax

OUT_OF_RANGE = """\
HloModule m

ENTRY e {
  a = f32[2] parameter(5)
  ROOT b = f32[2] negate(a)
}
"""
X = np.ones((4, 3), np.float32)
S = jax.ShapeDtypeStruct((4, 3), jnp.float32)


def f(x, y):
    return jnp.tanh(x) * y


@pytest.fixture(scope="module")
def cap():
    return jaxlens.capture(f, X, X)


@pytest.fixture
def dying(monkeypatch):
    """A child that XLA ends on each program; this process fails if it gives one to XLA."""

    def asked(request, target=None):
        raise ChildProcessError("(signal 6): x.cc:1] Check failed: it is out of range")

    def read(*_):
        raise AssertionError("XLA reads it in this process")

    lowered = jax.jit(f).lower(S, S)
    exported = jax.export.export(jax.jit(f))(S, S)
    monkeypatch.setattr(other_process, "asked", asked)
    monkeypatch.setattr(first_in_child, "_endings", {})
    for name in ("from_hlo", "to_hlo", "to_stablehlo", "compiled"):
        monkeypatch.setattr(compat, name, read)
    return lowered, exported


DOORS = {
    "HLO, shown": lambda t, c: jaxlens.hlo(jaxlens.capture(t.as_text(dialect="hlo"))),
    "HLO, cost": lambda t, c: jaxlens.cost(jaxlens.capture(t.as_text(dialect="hlo"))),
    "HLO, memory": lambda t, c: jaxlens.memory(jaxlens.capture(t.as_text(dialect="hlo"))),
    "HLO, run": lambda t, c: jaxlens.edit(
        jaxlens.capture(t.as_text(dialect="hlo")), "hlo", t.as_text(dialect="hlo"), run=1
    ),
    "StableHLO": lambda t, c: jaxlens.capture(t.as_text()),
    "bytecode": lambda t, c: jaxlens.capture(compat.bytecode(t.compiler_ir("stablehlo"))),
    "edited StableHLO": lambda t, c: jaxlens.edit(
        c, "stablehlo", jaxlens.edit(c, "stablehlo") + "// and more"
    ),
    "edited HLO": lambda t, c: jaxlens.edit(
        c, "hlo", jaxlens.edit(c, "optimized").replace("tanh(", "sine(")
    ),
    "edited optimised HLO": lambda t, c: jaxlens.edit(
        c, "optimized", jaxlens.edit(c, "optimized").replace("parameter(1)", "parameter(7)")
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_ends_the_child_never_reaches_this_process(cap, dying, door):
    with pytest.raises(ReadError, match=r"^XLA ends its process on this .*out of range$") as error:
        str(DOORS[door](dying[0], cap))
    assert "\n" not in str(error.value)


def test_an_exported_is_tried_too(dying):
    with pytest.raises(ReadError, match="XLA ends its process on this program"):
        jaxlens.capture(dying[1])


def test_a_text_of_this_process_needs_no_child(cap, monkeypatch):
    monkeypatch.setattr(other_process, "asked", None)
    for stage in ("stablehlo", "hlo", "optimized"):
        assert jaxlens.edit(cap, stage, jaxlens.edit(cap, stage), run=1).equal


def test_a_real_ending_is_one_line_and_remembered(monkeypatch):
    capture = jaxlens.capture(OUT_OF_RANGE)
    with pytest.raises(ReadError, match=r"mend it: \(signal 6\): \S+ Check failed: param_no >= 0"):
        str(jaxlens.hlo(capture))
    monkeypatch.setattr(other_process, "asked", None)
    with pytest.raises(ReadError, match=r"mend it: \(signal 6\)"):
        str(jaxlens.cost(jaxlens.capture(OUT_OF_RANGE)))


@pytest.mark.parametrize(
    "text",
    [
        f"module attributes {{a = {'[' * 9999}{']' * 9999}}} {{}}",
        f"func.func @main(%a: {'tuple<' * 9999}f32{'>' * 9999}) {{ return }}",
        f"module {{}} loc({'callsite(1 at ' * 9999}2{')' * 9999})",
    ],
)
def test_brackets_that_overflow_the_stack_are_refused_without_jax(text):
    with pytest.raises(ReadError, match="deep, which no program needs"):
        jaxlens.capture(text)


def mutated(text, seed):
    """The text with a number, line, name or token changed."""
    draw = random.Random(seed)
    lines = text.splitlines()
    first, second = draw.sample(range(len(lines)), 2)
    kind = seed % 4
    if kind == 0:
        lines[first], lines[second] = lines[second], lines[first]
    if kind == 1:
        del lines[first]
    text = "\n".join(lines)
    if kind > 1:
        found = list(re.finditer(r"\d+" if kind == 2 else r"%?[\w.]+", text))
        one, other = draw.sample(found, 2)
        text = text[: one.start()] + other[0] * draw.choice((1, 2)) + text[one.end() :]
    return text


@pytest.mark.parametrize("stage", ["stablehlo", "hlo", "optimized"])
def test_mutated_texts_are_an_answer_or_one_line(cap, stage):
    for seed in range(8):
        text = mutated(jaxlens.edit(cap, stage), seed)
        why = why_unavailable(lambda text=text: jaxlens.edit(cap, stage, text, run=0))
        assert "\n" not in why
