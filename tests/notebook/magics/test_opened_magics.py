"""Magics over programs that are there already: named alone, or called."""

import pytest

SETUP = """
import jax, jax.export, jax.numpy as jnp
def f(x):
    return jnp.tanh(x) @ x.T
x = jnp.ones((3, 5))
traced = jax.jit(f).trace(x)
lowered = traced.lower()
stages = {"compiled": lowered.compile()}
compiled = stages["compiled"]
text = lowered.as_text()
"""


@pytest.mark.parametrize("call", ["compiled(x)", "compiled", 'stages["compiled"](x)'])
def test_the_executable_that_is_there_is_looked_at(run, shell, call):
    ran = run(f"%compile -o view_ {call}").well()
    assert "read from a jax.stages.Compiled" in ran.shown
    view = shell.user_ns["view_"]
    assert view.capture.optimized.text == shell.user_ns["compiled"].as_text()
    assert "dot" in ran.shown


def test_a_cell_runs_where_the_executable_lacks_what_is_asked_for(run, shell):
    ran = run("%%jaxpr\ncompiled(x)").well()
    assert "Out[" in ran.out  # called, as without the magic
    assert "a jax.stages.Compiled holds no jaxpr" in " ".join(ran.shown.split())
    assert "Nothing was computed" not in ran.shown


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("lowered.as_text()", "StableHLO text"),
        ("compiled.as_text()", "optimised HLO text"),
        ("jax.export.export(jax.jit(f))(x)", "a jax.export.Exported"),
        ("(lowered,)[0].compile()", "a jax.stages.Compiled"),
    ],
)
@pytest.mark.parametrize("magic", ["%hlo ", "%%hlo\n"])
def test_an_expression_may_give_a_program(run, code, told, magic):
    ran = run(magic + code).well()
    assert f"read from {told}" in " ".join(ran.shown.split())


def test_stages_and_text_are_named_alone(run):
    for verb, name, told in (
        ("jaxpr", "traced", "jax.stages.Traced"),
        ("hlo", "lowered", "jax.stages.Lowered"),
        ("explore", "text", "StableHLO text"),
    ):
        ran = run(f"%{verb} {name}").well()
        assert f"read from {'a ' if 'jax' in told else ''}{told}" in " ".join(ran.shown.split())


@pytest.mark.parametrize("option", ["--grad", "--vmap 0", "--core", '--in "f32[3]"'])
def test_options_that_trace_anew_are_refused_in_a_line(run, option):
    ran = run(f"%jaxpr {option} lowered")
    assert not ran.ok
    assert "OptionError" in ran.out or "CellError" in ran.out
    assert len(ran.out.strip().splitlines()) == 1


def test_a_folder_is_a_line(run, tmp_path):
    assert run(f"c = lowered.compile(compiler_options={{'xla_dump_to': {str(tmp_path)!r}}})").ok
    ran = run(f"%hlo {str(tmp_path)!r}").well()
    assert "a folder of XLA's dumps" in " ".join(ran.shown.split())


def test_text_that_lacks_what_is_asked_for_is_a_line(run):
    ran = run("%%jaxpr\ncompiled.as_text()").well()
    assert "HloModule" in ran.out
    assert "The cell ran as written, and nothing is shown." in " ".join(ran.shown.split())
