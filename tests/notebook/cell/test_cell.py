"""A cell under a magic runs as usual, once; a bare call that ends it is looked at instead."""

import asyncio
import linecache

import pytest

from tests.support.paths import without_folders

SETUP = """
import jax, jax.numpy as jnp, numpy as np
x, w = jnp.ones((2, 3)), jnp.ones((3, 4))
count = {"body": 0, "argument": 0, "function": 0}
def once(name, value=None):
    count[name] += 1
    return value
def f(x, w, mode="a"):
    once("function")
    return jnp.tanh(x @ w).sum()
"""


def test_runs_once(run, shell):
    run('%%jaxpr\nonce("body")\nf(once("argument", x), w)').well()
    assert shell.user_ns["count"] == {"body": 1, "argument": 1, "function": 1}


def test_namespace_is_as_without_the_magic(run, shell):
    run("z = 1\nf(x, w)")
    before = {name: id(value) for name, value in shell.user_ns.items() if name[0] != "_"}
    assert run("%%jaxpr\nz = 1\nf(x, w)").ok
    assert run("%%jaxpr\nz = 1\njnp.tanh(x @ w).sum()").ok
    after = {name: id(value) for name, value in shell.user_ns.items() if name[0] != "_"}
    assert after == before


def test_history_holds_the_cell_and_no_result(run, shell):
    run("41 + 1")
    run("%%jaxpr\nf(x, w)")
    assert shell.user_ns["_"] == 42
    assert shell.user_ns["In"][-1].startswith("get_ipython().run_cell_magic('jaxpr'")
    assert shell.execution_count - 1 not in shell.user_ns["Out"]


def test_ipython_syntax_works_in_the_body(run, shell):
    run("%%jaxpr\nwords = !echo one two\n%time t = 1 + 1\nf(x, w)").well()
    assert list(shell.user_ns["words"]) == ["one two"]
    assert shell.user_ns["t"] == 2


@pytest.mark.filterwarnings("ignore:os.fork")
def test_await_runs_where_no_loop_runs(run, shell):
    run("%%jaxpr\nimport asyncio\na = await asyncio.sleep(0, 5)\nf(x, w)").well()
    assert shell.user_ns["a"] == 5


@pytest.mark.parametrize("magic", ["jaxpr", "recompiles"])
def test_nothing_runs_of_a_cell_that_awaits_while_a_loop_runs(run, shell, magic):
    async def in_a_kernel():
        return run(f"%%{magic}\nimport asyncio\nran = 1\nb = await asyncio.sleep(0, 5)")

    ran = asyncio.run(in_a_kernel())
    assert "a cell under a magic cannot await while the kernel's own loop runs" in ran.out
    assert "ran" not in shell.user_ns


def test_semicolon_and_comment_after_the_call(run):
    assert "f(x" in run("%%jaxpr\nf(x, w);  # the end\n\n# really\n").shown


G = "def g(x):\n    return x * 2"


@pytest.mark.parametrize(
    ("codes", "back", "line"),
    [
        ([f"\n\n%%jaxpr -o view\n\n\n{G}\ng(x)"], 1, 7),
        (["a = 1\n%jaxpr -o view x * 2"], 1, 2),
        ([G, "%%jaxpr -o view\ng(x)"], 2, 2),  # a function of an earlier cell
        ([f"%%time\n%%jaxpr -o view\n{G}\ng(x)"], 1, 4),
    ],
)
def test_spans_count_the_magics_line(run, shell, codes, back, line):
    for code in codes:
        run(code).well()
    (node,) = shell.user_ns["view"].capture.jaxpr.module.nodes()
    assert str(node.owner) == f"cell {shell.execution_count - back}:{line}"
    assert "x * 2\n" in linecache.getline(node.owner.key, line)


def test_spans_in_a_kernels_files(run, shell, monkeypatch):
    """A kernel names a cell's file by a hash, which tells no number."""
    compiler = pytest.importorskip("ipykernel.compiler").XCachingCompiler
    monkeypatch.setattr(shell, "compile", compiler())
    monkeypatch.setattr(shell, "compiler_class", compiler)
    for code in (
        '%%jaxpr -o view --in "f32[3]"\ndef g(x):\n    return x * 2',
        "%%jaxpr -o view\n\nx * 2",
    ):
        assert run(code).ok
        (node,) = shell.user_ns["view"].capture.jaxpr.module.nodes()
        assert str(node.owner) == f"cell {shell.execution_count - 1}:3"
    ran = run("%%jaxpr\ny = 1\nz = 2\nnp.tanh('a')")
    assert "----> 4 np.tanh('a')" in ran.out


def test_a_librarys_equations_are_at_the_call(run, shell):
    """No frame of the user's is inside; the line of the magic is not part of the program."""
    run("import jax.nn as library\nsoftmax = [library.softmax]")
    assert run("%%jaxpr -o view\ny = 1\nsoftmax[0](x)").ok
    here = f"cell {shell.execution_count - 1}:3"
    nodes = list(shell.user_ns["view"].capture.jaxpr.module.nodes())
    assert {str(node.owner) for node in nodes} == {here}
    assert {str(span) for node in nodes for span in node.spans} == {here}


def test_future_import_counts(run, shell):
    run(
        "%%jaxpr\nfrom __future__ import annotations\ndef g(x: Nowhere):\n    return x\ng(x)"
    ).well()
    shell.compile.reset_compiler_flags()


def test_ast_transformers_apply(run, shell):
    import ast

    class Seven(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.copy_location(ast.Constant(7), node) if node.value == 6 else node

    transformer = Seven()
    shell.ast_transformers.append(transformer)
    try:
        assert run("%%jaxpr\ns = 6\nf(x, w)").ok
    finally:
        shell.ast_transformers.remove(transformer)
    assert shell.user_ns["s"] == 7


@pytest.mark.parametrize(
    ("code", "error", "line"),
    [
        ("\ny = 1\n1 / 0\nf(x, w)", ZeroDivisionError, "4 1 / 0"),
        ("f(x, nowhere)", NameError, "2 f(x, nowhere)"),
    ],
)
def test_an_error_of_the_users(run, code, error, line):
    ran = run(f"%%jaxpr\n{code}")
    assert isinstance(ran.error, error)
    assert f"----> {line}" in ran.out
    assert "jaxlens" not in without_folders(ran.out)
    assert "run_cell_magic" not in ran.out


@pytest.mark.parametrize("last", ["f(x, w", "return f(x, w)"])  # which only compiling finds
def test_syntax_error(run, shell, last):
    ran = run(f"%%jaxpr\ny = 1\n{last}")
    assert isinstance(ran.error, SyntaxError)
    assert ran.error.lineno == 3
    assert "line 3" in ran.out
    assert "run_cell_magic" not in ran.out
    assert "y" not in shell.user_ns
