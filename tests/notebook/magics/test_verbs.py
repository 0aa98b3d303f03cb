"""Each behaviour is the same by verb, cell magic and line magic."""

import re

import jax
import pytest

import jaxlens
from jaxlens.errors import OptionError

SETUP = """
import jax, jax.numpy as jnp, numpy as np
x, w = jnp.ones((2, 3)), jnp.ones((3, 4))
calls = []
def f(x, w, mode="a"):
    calls.append(mode)
    return jnp.tanh(x @ w).sum()
donating = jax.jit(lambda x: x * 2, donate_argnums=0)
"""


@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile", "explore"])
def test_the_same_first_line(look, verb):
    view = look(verb, "f", "x, w")
    assert view.document.verb == verb
    first = str(view).splitlines()[0]
    runs = "jitted for this look (as written, it runs op by op)"
    assert first == f"f(x, w) with x f32[2,3], w f32[3,4] on cpu, {runs}"


def test_run_executes_and_donated_buffers_live(run, shell):
    ran = run("%%compile --run 3 -o view\ndonating(x)").well()
    assert "block_until_ready" in shell.user_ns["view"].text(times=True)
    measured = re.search(r"Measured\n.*\n.*\n +3( +[\d.]+ [nµm]?s){3}\n", ran.shown)
    assert measured  # as it was asked for; no other time is in the text, which notebooks compare
    assert "Time per stage: left out, it changes from run to run" in " ".join(ran.shown.split())
    assert "block_until_ready" in shell.user_ns["view"].html()
    assert not shell.user_ns["x"].is_deleted()


@pytest.mark.parametrize(
    ("verb", "options", "keywords"),
    [
        ("hlo", "--stage stablehlo", {"stage": "stablehlo"}),
        ("hlo", "--passes", {"passes": True}),
        ("hlo", "--pass fusion", {"pass_name": "fusion"}),
        ("hlo", "--diff hlo optimized", {"diff": ("hlo", "optimized")}),
        ("jaxpr", "--text", {"text": True}),
        ("jaxpr", "--tape", {"tape": True}),
        ("jaxpr", "--captured", {"captured": True}),
        ("compile", "--why", {"why": True}),
        ("compile", "--cost", {"cost": True}),
        ("compile", "--memory", {"memory": True}),
        ("compile", "--roofline=h100", {"roofline": "h100"}),
        ("explore", "--full", {"full": True}),
    ],
)
def test_options_mean_the_same(run, shell, public, verb, options, keywords):
    run(f"%{verb} {options} -o view f(x, w)").well()
    names = shell.user_ns
    names["calls"].clear()  # the tape says how long it was
    capture = public.capture(names["f"], names["x"], names["w"])
    assert str(names["view"]) == str(getattr(public, verb)(capture, **keywords))


@pytest.mark.parametrize(
    ("verb", "options", "says"),
    [
        ("hlo", "--pass fusoin", "did you mean 'fusion'?"),
        ("hlo", "--diff hlo optimised", "did you mean 'optimized'?"),
        ("compile", "--kernel nope", "nope"),
        ("jaxpr", "--target tpu", "no target 'tpu' here; this process has cpu"),
    ],
)
def test_a_name_that_does_not_exist(run, verb, options, says):
    assert says in run(f"%%{verb} {options}\nf(x, w)").refused()


def test_options_need_a_capture_and_keywords(public, shell):
    names = shell.user_ns
    capture = public.capture(names["f"], names["x"], names["w"])
    with pytest.raises(OptionError) as error:
        public.hlo(capture, "optimized")
    assert str(error.value) == (
        "jaxlens.hlo takes options by keyword with a Capture, got 1 positional: "
        "jaxlens.hlo(cap, option=value)"
    )


def test_grad_names_and_jvp(run, shell):
    assert run("%%jaxpr --grad w -o view\nf(x, w)").ok
    capture = shell.user_ns["view"].capture
    assert [str(o.type) for o in capture.outputs] == ["f32[3,4]"]
    assert capture.program.transforms == ("grad",)
    assert run("%%jaxpr --jvp -o view\nf(x, w, mode='b')").ok
    capture = shell.user_ns["view"].capture
    names = [i.name for i in capture.program.inputs]
    assert names == ["x", "w", "tangents['w']", "tangents['x']"]
    assert capture.program.transforms == ("jvp",)


def test_a_terminal_gets_text_with_figures_and_no_html(run, shell):
    formatter = shell.display_formatter
    before, formatter.active_types = formatter.active_types, ["text/plain"]
    try:
        ran = run("%compile --run 2 donating(x)")
    finally:
        formatter.active_types = before
    assert "block_until_ready" in ran.shown
    assert "--full opens it" in ran.shown
    assert ".text(full=True)" not in ran.shown


def test_a_saved_capture_shows_the_same(run, shell, public, tmp_path):
    assert run("%hlo -o view f(x, w)").ok
    shell.user_ns["view"].capture.save(tmp_path / "f.jaxlens")
    loaded = public.load(tmp_path / "f.jaxlens")
    for verb in ("jaxpr", "hlo"):
        show = getattr(public, verb)
        assert str(show(loaded)) == str(show(shell.user_ns["view"].capture))
    with pytest.raises(public.LensError) as error:
        str(public.compile(loaded, run=1))
    assert str(error.value) == "a capture loaded from a file holds no program that could run"


def test_a_variable_that_holds_a_transformed_function_shows_what_it_was_made_of(shell):
    shell.run_cell("import jax, jax.numpy as jnp\ndef loss(w): return (w * w).sum()")
    shell.run_cell("g = jax.grad(loss)\nj = jax.jit(g)")
    for call, ending in (("g(jnp.ones(3))", ", jitted for this look ("), ("j(jnp.ones(3))", "\n")):
        shell.run_cell(f"%%jaxpr --text -o seen\n{call}").raise_error()
        first = "grad(loss)(w) with w f32[3] on cpu"
        assert str(shell.user_ns["seen"]).startswith(first + ending)


def test_the_ladder_of_a_magic_is_that_of_the_verb(run, shell):
    ran = run("%%jaxpr --vmap None,0 --grad --ladder\nf(w.T, x)").well()
    assert "grad(f):" in ran.shown
    f = shell.user_ns["f"]
    batch = jax.vmap(jax.grad(f), (None, 0))
    assert str(jaxlens.ladder(batch, shell.user_ns["w"].T, shell.user_ns["x"])) == ran.shown
    refused = run("%%jaxpr --ladder\nf(x, w)")
    assert not refused.ok
    assert "a ladder needs a transformed function" in refused.out
