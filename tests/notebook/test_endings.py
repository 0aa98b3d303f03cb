# ruff: noqa: E501 - the messages stand here as they are shown
"""What each kind of last line means, and what is said where there is nothing to look at."""

from collections.abc import Callable
from typing import Any

import pytest

SETUP = """
import functools
import jax, jax.numpy as jnp, numpy as np
x, w = jnp.ones((2, 3)), jnp.ones((3, 4))
calls = []
def f(x, w):
    calls.append("f")
    return jnp.tanh(x @ w).sum()
class Model:
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        return x @ self.w
    def twice(self, x):
        return 2 * self(x)
    @property
    def layer(self):
        calls.append("layer")
        return self.twice
def make():
    calls.append("make")
    return f
model, table, several, i = Model(w), {"f": f}, [f], 0
part = functools.partial(f, w=w)
params = {"w": w, "b": jnp.zeros(4), "name": "p"}
g = jax.jit(f)
made = {}
exec("def h(x): return x * 2", made)
"""


@pytest.fixture
def cell(run: Callable[..., Any]) -> Callable[..., Any]:
    assert run(SETUP).ok
    return run


def program(shell: Any) -> Any:
    return shell.user_ns["view"].capture.program


@pytest.mark.parametrize(
    ("call", "name", "inputs"),
    [
        ("f(x, w)", "f", ["x", "w"]),
        ("f(x, w=w)", "f", ["x", "w"]),
        ("f(*(x, w))", "f", ["x", "w"]),
        ("f(**dict(x=x, w=w))", "f", ["w", "x"]),  # JAX sorts keywords
        ("f(x + 1, w[:, :2])", "f", ["x", "w"]),
        ("g(x, w)", "g", ["x", "w"]),
        ("model(x)", "model", ["x"]),
        ("model.twice(x)", "model.twice", ["x"]),
        ("model.layer(x)", "model.layer", ["x"]),
        ("part(x)", "part", ["x", "w"]),
        ("table['f'](x, w)", "table['f']", ["x", "w"]),
        ("several[i](x, w)", "several[i]", ["x", "w"]),
        ("several[len(several) - 1](x, w)", "several[len(several) - 1]", ["x", "w"]),
        ("make()(x, w)", "f", ["x", "w"]),
        ("jax.grad(f)(x, w)", "f", ["x", "w"]),
        ("jax.jit(f)(x, w)", "f", ["x", "w"]),
        ("(lambda a: a * 2)(x)", "<lambda>", ["a"]),
        ("(f if i == 0 else g)(x, w)", "f", ["x", "w"]),
        ("f(x, w).block_until_ready()", "f", ["x", "w"]),
        ("jax.block_until_ready(g(x, w))", "g", ["x", "w"]),
        ("made['h'](x)", "made['h']", ["x"]),
    ],
)
def test_a_call_of_the_users_own(cell: Any, shell: Any, call: str, name: str, inputs: list) -> None:
    ran = cell(f"%%jaxpr -o view\n{call}")
    assert ran.ok, ran.out
    assert program(shell).name == name
    assert [i.name for i in program(shell).inputs] == inputs
    assert shell.user_ns["calls"].count("layer") == ("layer" in call)
    assert shell.user_ns["calls"].count("make") == ("make" in call)


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        ("jnp.tanh(x @ w).sum()", ["x", "w"]),
        ("x.sum()", ["x"]),
        ("x.sum().block_until_ready()", ["x"]),
        ("x", ["x"]),
        ("x @ w + 1", ["x", "w"]),
        ("jnp.dot(x, params['w'])", ["x", "params['b']", "params['w']"]),
        ("f(x, w) + 1", ["x", "w"]),
        ("f(x, w).astype(int)", ["x", "w"]),
        ("x.at[0].set(1.0)", ["x"]),
        ("[x * 2 for x in (x, w)]", ["x", "w"]),
        ("sum(a.sum() for a in [w, x])", ["w", "x"]),
        ("jax.lax.scan(lambda c, w: (c + w.sum(), w), 0.0, x)", ["x"]),
        ("(y := x * 2) + y", ["x"]),
        ("jnp.zeros(3) + 1", []),
    ],
)
def test_any_other_expression(cell: Any, shell: Any, expression: str, inputs: list) -> None:
    ran = cell(f"%%jaxpr -o view\n{expression}")
    assert ran.ok, ran.out
    assert program(shell).name == "expression"
    assert [i.name for i in program(shell).inputs] == inputs
    assert "y" not in shell.user_ns


def test_a_def_on_written_shapes(cell: Any, shell: Any) -> None:
    ran = cell(
        "%%jaxpr -o view --in \"f32[8,128], params={'w': f32[128,4], 'b': f32[4]}\"\n"
        'def predict(x, params):\n    return x @ params["w"] + params["b"]'
    )
    assert ran.ok, ran.out
    assert program(shell).name == "predict"
    shown = {i.name: str(i.type) for i in program(shell).inputs}
    assert shown == {"x": "f32[8,128]", "params['b']": "f32[4]", "params['w']": "f32[128,4]"}
    assert callable(shell.user_ns["predict"])


def test_a_decorated_def_and_a_name_on_written_shapes(cell: Any, shell: Any) -> None:
    assert cell('%%jaxpr -o view --in "f32[3]"\n@jax.jit\ndef h(x):\n    return x * 2').ok
    assert [str(i.type) for i in program(shell).inputs] == ["f32[3]"]
    assert cell('%jaxpr -o view --in "f32[5]" h').ok
    assert [str(i.type) for i in program(shell).inputs] == ["f32[5]"]


SAYS = [
    ("y = f(x, w)", "the cell ends in an assignment, which ran as usual: end it with f(x, w) to look at it"),
    ("y: float = 2.0", "the cell ends in an assignment, which ran as usual: end it with 2.0 to look at it"),
    ("if True:\n    y = 1", "the cell ends in an if statement, which ran as usual: end it with a call to look at, such as f(x)"),
    ("import math as y", "the cell ends in an import, which ran as usual: end it with a call to look at, such as f(x)"),
    ("class y: pass", "the cell ends in a class, which ran as usual: end it with a call to look at, such as f(x)"),
    ("def y(x): return x", 'the cell ends in def y: call it in the last line, or give shapes for its arguments: --in "f32[8,128], f32[128]"'),
    ("y = 1\nprint(x.shape)", "the cell ends in a line that shows or runs something else, which it did: end it with a call to look at, such as f(x)"),
    ("y = 1\n%time 1", "the cell ends in a line that shows or runs something else, which it did: end it with a call to look at, such as f(x)"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "says"), SAYS, ids=[code for code, _ in SAYS])
def test_nothing_to_look_at_runs_and_says_what_to_do(
    cell: Any, shell: Any, code: str, says: str
) -> None:
    ran = cell(f"%%jaxpr\n{code}")
    assert type(ran.error).__name__ == "CellError"
    assert str(ran.error) == says
    assert ran.out.endswith(f"CellError: {says}\n")
    assert "y" in shell.user_ns


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("# nothing", "the cell is empty: end it with a call to look at, such as f(x)"),
        ("f", 'f is a function and no call: call it, or give shapes for its arguments: --in "f32[8,128], f32[128]"'),
        ("'text'", "'text' names no array and calls nothing: end with a call to look at, such as f(x)"),
        ("i", "i names no array and calls nothing: end with a call to look at, such as f(x)"),
        ("table['g'](x, w)", None),
        ("f(x, w, 3)", "the arguments do not fit f(x, w): too many positional arguments"),
    ],
)  # fmt: skip
def test_one_line(cell: Any, code: str, says: str | None) -> None:
    ran = cell(f"%%jaxpr\n{code}")
    if says is None:
        assert isinstance(ran.error, KeyError)
        assert "----> 2 table['g'](x, w)" in ran.out
        return
    assert str(ran.error) == says
    assert ran.out == f"CellError: {says}\n"


def test_a_callee_that_cannot_be_called(cell: Any) -> None:
    ran = cell("%%jaxpr\ni(x)")
    assert isinstance(ran.error, TypeError)
    assert "----> 2 i(x)" in ran.out
    assert cell("%%jaxpr\nmodel.w(x)").error is not None


def test_shapes_with_a_call_are_refused(cell: Any, shell: Any) -> None:
    ran = cell('%%jaxpr --in "f32[3]"\nf(x, w)')
    assert ran.out == (
        "OptionError: --in gives the shapes, so end with the function alone "
        "(a def, or its name), not with f(x, w)\n"
    )
    assert shell.user_ns["calls"] == []


def test_a_line_magic_with_nothing(cell: Any) -> None:
    says = "%jaxpr has nothing to look at: put a call behind it, %jaxpr f(x)"
    assert cell("%jaxpr").out == f"CellError: {says}\n"


def test_later_cells_work_after_an_error(cell: Any, shell: Any) -> None:
    cell("%%jaxpr\n1 / 0")
    cell("%%jaxpr\ny = 1")
    ran = cell("raise ValueError('mine')")
    assert "----> 1 raise ValueError('mine')" in ran.out
    assert cell("%%jaxpr\nf(x, w)").ok
    assert shell.custom_exceptions == ()
