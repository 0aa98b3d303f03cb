"""Every example of every magic's `-h` runs as it stands there."""

import re

import pytest

from jaxlens.notebook.magics.magics import ProgramMagics
from jaxlens.notebook.magics.running_magics import RunningMagics
from jaxlens.options import flag
from jaxlens.questions import rows

MAGICS = sorted(
    name
    for kind in (ProgramMagics, RunningMagics)
    for name in {**kind.magics["cell"], **kind.magics["line"]}
)
# What the examples name.
SETTING = """
import jax, jax.numpy as jnp, jaxlens
x, w, xs = jnp.ones((8, 128)), jnp.ones((128, 4)), jnp.ones((3, 8, 128))
params, batch, batches = {"w": w}, x, [x, x]
normalise = jax.jit(lambda x: x / x.sum())
predict = jax.jit(lambda params, x: jnp.tanh(x @ params["w"]))
loss = lambda params, x: (x @ params["w"]).sum()
step = lambda params, batch: jax.tree.map(
    lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, batch))
f = lambda x, w: x @ w
"""
_CELL = re.compile(r"^    %%.*(?:\n    (?!%).*)*", re.MULTILINE)
_LINE = re.compile(r"(?<!%)%[a-z]+ .*")
_PYTHON = re.compile(r"\bjaxlens\.[a-z_]+\(.*\)")
_REMARK = re.compile(r"(?<=\S) {3,}[a-z].*")  # behind an example, as in `f(x)      is traced`


def examples(text):
    for match in _CELL.finditer(text):
        lines = match[0].split("\n")
        head, *body = (_REMARK.sub("", line[4:]) for line in lines)
        yield "\n".join([head, *body]).rstrip()
    for match in _LINE.finditer(text):
        if "[-h]" not in match[0]:  # the line of usage, which argparse writes
            yield match[0]
    for match in _PYTHON.finditer(text):
        yield match[0]


def helped(run, name):
    ran = run(f"%{name} -h").well()
    return re.split(r"\n(?:show|ask|of which program|options):\n", ran.out + ran.shown)[0]


@pytest.mark.parametrize("name", MAGICS)
def test_every_example_of_a_magics_help_runs(run, name):
    found = list(examples(helped(run, name)))
    assert found, f"%{name} -h has no example"
    assert run(SETTING).ok
    for code in found:
        ran = run(code).well()
        assert ran.shown.strip() or ran.out.strip(), code


OPTIONS = {
    f"%{row.verb} {flag(name)}": about
    for row in rows()
    for name, about in [(row.name, row.about), *((o.name, o.about) for o in row.options)]
    if row.verb and about
}


@pytest.mark.parametrize("option", OPTIONS)
def test_help_on_an_option_says_what_it_answers_and_how_that_is_known(run, option):
    said = " ".join(run(f"{option} -h").out.split())
    assert said.startswith(" ".join(str(OPTIONS[option]).split()))


def test_shapes_as_the_option_writes_them(run):
    option = run("%jaxpr -h").out.partition("--in SHAPES")[2]
    written = re.search(r'"([^"]+)"', " ".join(option.split()))
    assert written is not None
    definition = 'def loss(x, params):\n    return (x @ params["w"]).sum()'
    for transforms in ("", "--grad", "--grad=params", "--jit --grad 1"):
        ran = run(f'%%jaxpr {transforms} --in "{written[1]}"\n{definition}').well()
        assert "dot_general" in ran.shown


@pytest.mark.parametrize("transforms", ["--grad", "--grad x", "--vmap 0,None", "--jvp", "--jit"])
def test_shapes_by_name_may_stand_in_any_order(run, transforms):
    """Transforms go by position."""
    ran = run(
        f'%%jaxpr {transforms} --in "w=f32[4], x=f32[3,4]"\n'
        "def f(x, w, scale=2.0):\n    return (x * w).sum() * scale"
    ).well()
    assert "mul" in ran.shown
