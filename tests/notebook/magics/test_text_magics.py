"""`%%edit` in a real shell."""

import pytest

SETUP = """
import jax, jax.numpy as jnp, jaxlens
traced = []
@jax.jit
def f(x):
    return jnp.tanh(x)
cap = jaxlens.capture(f, jnp.ones(3))
"""


def next_cell(run, shell, line):
    texts = []
    shell.set_next_input = lambda text, replace=False: texts.append(text)
    try:
        assert run(line).ok
    finally:
        del shell.set_next_input
    return texts[0]


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        ("%edit cap", "stablehlo.tanh", "stablehlo.sine"),
        ("%edit --stage hlo cap", " tanh(", " sine("),
        ("%edit --stage optimized cap", " tanh(", " sine("),
    ],
)
def test_the_line_writes_a_cell_and_the_cell_runs_it(run, shell, line, old, new):
    cell = next_cell(run, shell, line)
    head, _, body = cell.partition("\n")
    assert head == "%%edit cap"
    ran = run(f"{head} --run 1 -o other\n{body.replace(old, new)}").well()
    assert "3 of 3 elements" in ran.out + ran.shown
    assert shell.user_ns["other"].outputs[0].differing == 3


def test_a_parsers_error_has_the_line_of_the_cell(run, shell):
    cell = next_cell(run, shell, "%edit cap").replace("stablehlo.tanh", "stablehlo.tanz")
    line = next(n for n, row in enumerate(cell.splitlines(), 1) if "tanz" in row)
    ran = run(cell)
    assert f"ReadError: line {line}, column" in ran.out
    assert "Traceback" not in ran.out


def test_what_is_no_capture_is_one_line(run):
    assert "takes the name of a Capture, got 'f'" in run("%%edit f\nmodule {}").out
    assert "takes the name of a Capture, got ''" in run("%%edit\nmodule {}").out


def test_a_line_that_names_no_program_is_ipythons(run, shell, monkeypatch):
    opened = []
    monkeypatch.setitem(shell.hooks, "editor", lambda *file: opened.append(file))
    assert run("%edit -x no_file_yet.py").ok
    assert len(opened) == 1
