"""One slow compile serves the looks of later cells, unless the function's lines have changed."""

import pytest

from jaxlens.stages.session import compiling

CELL = """
import jax, jax.numpy as jnp

@jax.jit
def step(x):
    def inner(y):
        return jnp.sin(y) * 2

    return jax.grad(lambda z: inner(z).sum())(x) + jax.nn.relu(x) + jnp.cumsum(x, 0)

x = jnp.ones((4, 4))
"""


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    """Takes each compile for a slow one."""
    monkeypatch.setattr(compiling, "_SLOW", 0.0)


def _compiled_anew(capture):
    return [t.note for t in capture.times if t.step == "compile"] == ["XLA, writing its dumps too"]


def test_one_compile_serves_later_cells(run, shell):
    cells = [CELL, "%%compile -o first\n\n\nstep(x)", "pass\n%compile -o later --memory step(x)"]
    for ran in map(run, [*cells, "%compile -o last --cost step(x)"]):
        assert ran.ok, ran.out
    first, later, last = (shell.user_ns[name].capture for name in ("first", "later", "last"))
    assert _compiled_anew(first)
    for capture in (later, last):
        assert not _compiled_anew(capture)
        assert capture.driver.compiling.made is first.driver.compiling.made
        nodes = capture.optimized.module.nodes()
        lines = {(span.file, span.line) for node in nodes for span in node.spans}
        assert lines == {("cell 1", line) for line in (6, 8)}


@pytest.mark.parametrize(
    "change",
    [("\n@jax.jit", "\n\n@jax.jit"), ("x):", "w, x=None):\n    x = w"), ("sin(y) * 2", "sin(y)*2")],
    ids=["moved", "renamed", "spaced"],
)
def test_an_edited_function_is_compiled_anew(change, run, shell):
    edited = CELL.replace(*change, 1)
    cells = [CELL, "%compile -o first --memory step(x)", edited]
    for ran in map(run, [*cells, "%compile -o later --memory step(x)"]):
        assert ran.ok, ran.out
    assert _compiled_anew(shell.user_ns["later"].capture)


def test_another_scope_is_compiled_anew(run, shell):
    cell = """
import jax, jax.numpy as jnp
name = "a"
def step(x):
    with jax.named_scope(name):
        return jnp.sin(x)
x = jnp.ones(4)
"""
    for code in (cell, "%compile -o first step(x)", "name = 'b'\n%compile -o later step(x)"):
        run(code).well()
    assert _compiled_anew(shell.user_ns["later"].capture)
