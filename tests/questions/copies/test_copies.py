"""Copies, their causes and what removes them, against the copies in the text that JAX prints."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxlens
from jaxlens.questions.copies.measure import Alteration, compiled

pytestmark = pytest.mark.backend

N = 10_000
A = jax.ShapeDtypeStruct((N,), jnp.float32)
INDEX = jax.ShapeDtypeStruct((), jnp.int32)
X, K = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 8, 16, 16), (16, 8, 3, 3)))
Q = jax.ShapeDtypeStruct((2, 32, 4, 16), jnp.float32)
# An instruction that copies an array, or a fusion that XLA names after nothing but copies.
COPY = re.compile(r"= \w+\[[\d,]+\]\S* (?:copy|transpose)\(|%(?:transpose_|copy_)+fusion\S* = ")


def counted(f, *args, **options):
    """Counts the copies in what JAX prints, those inside fusions left out."""
    text = jax.jit(f, **options).lower(*args).compile().as_text()
    bodies = (b for b in text.split("\n\n") if not re.match(r"\s*%(fused|wrapped)_", b))
    return sum(len(COPY.findall(body)) for body in bodies)


def verlet(p, q, unroll=1):
    def step(carry, _):
        p, q = carry
        return (q, 2 * q - p + 0.01 * jnp.sin(q)), None

    return lax.scan(step, (p, q), None, length=48, unroll=unroll)[0]


def reads_late(x, i):
    y = x.at[i].set(1.0)
    return y, x.sum()


def reads_first(x, i):
    total = x.sum()
    return x.at[i].set(total), total


def loop(x, first=False):
    def step(i, carry):
        x, s = carry
        total = x.sum()
        return x.at[i].set(s + total if first else s), total

    return lax.fori_loop(0, 50, step, (x, 0.0))


def nchw(x, k):
    return lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def nhwc(x, k):
    return lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def scores(q, k):
    return jnp.einsum("bqhd,bkhd->bhqk", q, k)


def scores_by_head(q, k):
    return jnp.einsum("bhqd,bhkd->bhqk", q, k)


def moved(shape, *order):
    return jax.ShapeDtypeStruct(tuple(shape.shape[n] for n in order), shape.dtype)


# Program, arguments, donated, causes; the mended program written by hand, its arguments, donated.
CASES = {
    "a shifted carry": (
        (verlet, (A, A), ()),
        {"shifted", "kept"},
        (partial(verlet, unroll=2), (A, A), (0, 1)),
    ),
    "a donated argument": (
        (reads_late, (A, INDEX), (0,)),
        {"read"},
        (reads_first, (A, INDEX), (0,)),
    ),
    "an update in a loop": (
        (loop, (A,), ()),
        {"read", "kept"},
        (partial(loop, first=True), (A,), (0,)),
    ),
    "a convolution": (
        (nchw, (X, K), ()),
        {"layout"},
        (nhwc, (moved(X, 0, 2, 3, 1), moved(K, 2, 3, 1, 0)), ()),
    ),
    "heads": (
        (scores, (Q, Q), ()),
        {"layout"},
        (scores_by_head, (moved(Q, 0, 2, 1, 3), moved(Q, 0, 2, 1, 3)), ()),
    ),
    "an input as it is": (
        (lambda x: (x, x * 2), (A,), ()),
        {"returned"},
        (lambda x: (x, x * 2), (A,), (0,)),
    ),
}
# On this jax alone XLA drops the barrier that puts a read first, before it inserts copies.
KEPT = {"a donated argument", "an update in a loop"}


@pytest.mark.parametrize("name", CASES)
def test_the_copies_are_those_of_the_text_and_their_mend_removes_them(name) -> None:
    (f, args, donated), kinds, (mended, mended_args, mended_donated) = CASES[name]
    found = jaxlens.copies(jax.jit(f, donate_argnums=donated), *args)
    before = counted(f, *args, donate_argnums=donated)
    assert len(found.copies) == before > 0
    assert {copy.cause.kind for copy in found.copies} == kinds
    assert counted(mended, *mended_args, donate_argnums=mended_donated) == 0
    best = min(mend.bytes for mend in found.mends)
    if name not in KEPT or jax.__version_info__ >= (0, 11):
        assert best == 0
    assert "traced again" not in str(found)
    assert "traced 2 times" not in str(found)


def test_what_is_tried_is_the_program_itself() -> None:
    capture = jaxlens.capture(verlet, A, A)
    again = compiled(capture.driver.live(), Alteration())
    assert _opcodes(again) == _opcodes(capture.optimized.module)


def _opcodes(module):
    return sorted(str((node.opcode, str(node.type))) for node in module.nodes())


@pytest.mark.parametrize(
    ("f", "first", "tried"),
    [
        (
            lambda x: (x, x * 2),
            "A run copies 40 kB, 1 copy of 40 kB: the program returns `x` unchanged, in a new "
            "buffer.",
            "Tried: donating x left no copy: donate_argnames=('x',).",
        ),
        (lambda x: x * 2, "No array is copied or transposed by an instruction of its own.", ""),
    ],
)
def test_the_sentences(f, first, tried) -> None:
    lines = [finding.text for finding in jaxlens.copies(jax.jit(f), A).report.findings]
    assert lines == [first, *filter(None, [tried])]


def layers(weights, x):
    for w in weights:
        q, k = ((x @ one).reshape(2, 32, 4, 16) for one in w)
        x = jnp.tanh(scores(q, k)).sum((1, 3))[..., None] + x
    return x


def test_the_same_line_in_several_layers_is_one_sentence() -> None:
    w, x = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 64), (2, 32, 64)))
    first, *rest = jaxlens.copies(layers, [(w, w)] * 3, x).report.findings
    assert first.text.startswith("A run copies 98.3 kB, 6 copies of 16.4 kB: ")
    assert not any("16.4 kB" in finding.text for finding in rest)


def stacked(x):
    return lax.scan(lambda c, _: (c + 1, (c * 2, jnp.sin(c))), x, None, length=50)


def chosen(p, x):
    return lax.cond(p, lambda x: (x * 2, x), lambda x: (x, jnp.sin(x)), x * 2)


P, KEY = jax.ShapeDtypeStruct((), bool), jax.random.key(0)
OTHERS = {
    "shared": (stacked, (A,), "several places of the carry of .* begin with the same value, the "),
    "branch": (chosen, (P, A), "the branches of .* return in the same buffer"),
    "constant": (lambda key: jax.random.bits(key, N), (KEY,), r"over the u32\[4\], a constant"),
    "twice": (lambda x: (x * 2 + 1,) * 2, (A,), r"the f32\[10000\] is returned several times"),
    "transposed": (lambda x: x.transpose(1, 2, 3, 0), (X,), r"returns `x` in the order \(1, 2"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_copies_that_no_change_removes_have_a_cause_too(kind) -> None:
    f, args, words = OTHERS[kind]
    found = jaxlens.copies(f, *args)
    assert len(found.copies) == counted(f, *args) > 0
    assert kind in {copy.cause.kind for copy in found.copies}
    assert "unknown" not in {copy.cause.kind for copy in found.copies}
    assert any(re.search(words, finding.text) for finding in found.report.findings)


def test_the_arrays_of_an_argument_are_one_sentence() -> None:
    def f(state, x):
        return state, {name: value + x for name, value in state.items()}

    first, *rest = jaxlens.copies(f, {"a": A, "b": A, "c": K}, 1.0).report.findings
    assert "3 copies: the program returns `state['a']`, `state['b']` and 1 more unch" in first.text
    assert len(rest) == 1
    first, *_ = jaxlens.copies(f, {letter * 60: A for letter in "abc"}, 1.0).report.findings
    assert len(first.text) <= 200
    assert "aaa']` and 2 more unchanged" in first.text


def test_what_removes_next_to_nothing_is_no_mend() -> None:
    def f(x):
        return lax.scan(lambda c, _: (c + x.sum(), [c * n for n in range(9)]), x, None, length=50)

    found = jaxlens.copies(f, A)
    assert 0.8 * found.bytes < min(mend.bytes for mend in found.mends) < found.bytes
    assert found.report.findings[-1].text == "No change that is known removes a fifth of it."


WHILE = """
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  BODY
  ROOT t = (s32[], f32[8]) tuple(i, new)
}

test {
  u = (s32[], f32[8]) parameter(0)
  ROOT p = pred[] constant(true)
}

ENTRY main {
  a = f32[8] parameter(0)
  zero = s32[] constant(0)
  ENTRY
  ROOT w = (s32[], f32[8]) while(first), condition=test, body=body
}
"""
SHARED = "ENTRY main {\n  a = f32[8] parameter(0)\n  "
# The negation needs no copy: the subtraction waits for it.
ITSELF = "c = f32[8] copy(x)\n  m = f32[8] negate(c)\n  new = f32[8] subtract(m, c)"
STARTS = "d = f32[8] copy(a)\n  first = (s32[], f32[8]) tuple(zero, d)"
PROGRAMS = {
    "read": WHILE.replace("BODY", ITSELF).replace("ENTRY\n", STARTS + "\n"),
    "memory": SHARED + "c = f32[8]{0:S(1)} copy(a)\n  ROOT r = f32[8] negate(c)\n}\n",
    "resharding": SHARED
    + "c = f32[8] copy(a)\n  ROOT r = f32[8] all-to-all(c), dimensions={0}\n}\n",
    "layout": "ENTRY main {\n  a = f32[2,3]{1,0} parameter(0)\n"
    "  c = f32[2,3]{0,1} copy(a)\n  ROOT r = f32[2,3]{0,1} negate(c)\n}\n",
}
# The transpose is of a value that has more dimensions than what the fusion is given and returns.
RESHAPED = """
f {
  p = f32[6,4] parameter(0)
  b = f32[2,3,4] bitcast(p)
  t = f32[4,2,3] transpose(b), dimensions={2,0,1}
  ROOT q = f32[4,6] bitcast(t)
}

ENTRY main {
  a = f32[6,4] parameter(0)
  c = f32[4,6] fusion(a), kind=kLoop, calls=f
  ROOT r = f32[4,6] negate(c)
}
"""
PROGRAMS["layout of a reshaped value"] = RESHAPED


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_cause_in_a_program_written_by_hand(kind) -> None:
    text = f"HloModule m, is_scheduled=true\n\n{PROGRAMS[kind]}"
    found = jaxlens.copies(jaxlens.capture(text))
    assert kind.split()[0] in {copy.cause.kind for copy in found.copies}, found.copies
    assert "holds no Python function" in found.untried


def test_an_exchange_of_donated_arguments() -> None:
    found = jaxlens.copies(jax.jit(lambda x, y: (y, x), donate_argnums=(0, 1)), A, A)
    assert {copy.cause.kind for copy in found.copies} == {"returned"}
    (mend,) = found.mends
    kept = counted(lambda x, y: (y, x), A, A)
    assert (mend.copies, mend.bytes) == (kept, kept * 4 * N)
