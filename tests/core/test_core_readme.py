"""The code in `core/README.md` runs, and does what is said there."""

import ast
import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo as hlo

import jaxlens.core.numpy as cnp
from jaxlens import core
from tests.core.test_core_kernel import code_lines
from tests.support.documents import approved

README = Path(core.__file__).with_name("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
pytestmark = pytest.mark.backend


def test_first_example(capsys: Any) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[0], names)
    assert "dot_general" in capsys.readouterr().out
    assert names["step"](np.ones((3, 2), np.float32), np.ones((5, 3), np.float32)).shape == (
        5,
        3,
        2,
    )


def run(*blocks: int) -> dict[str, Any]:
    """Runs code blocks of the page in one namespace."""
    names: dict[str, Any] = {}
    for block in blocks:
        exec(BLOCKS[block], names)
    return names


@pytest.mark.parametrize("blocks", [[1], [1, 2, 3]], ids=["StableHLO", "Python function"])
def test_a_primitive_of_two_arguments(blocks: list[int]) -> None:
    ours, theirs = run(*blocks)["hypot"], lambda x, y: jnp.sqrt(x * x + y * y)
    x, y = np.arange(1, 4, dtype=np.float32), np.arange(2, 5, dtype=np.float32)
    for transform, args in [
        (lambda lib, f: f, (x, y)),
        (lambda lib, f: lib.jit(lib.grad(f)), (3.0, 4.0)),
        (lambda lib, f: lib.vmap(lib.grad(f), in_axes=(0, None)), (x, 2.0)),
        (lambda lib, f: lib.vmap(lib.vmap(f, (0, None)), (None, 0)), (x, y)),
        (lambda lib, f: lib.jit(lib.vmap(f, (None, 0))), (x, np.stack([y, x]))),
        (lambda lib, f: lib.hessian(f, (0, 1)), (3.0, 4.0)),
        (
            lambda lib, f: lib.vmap(lib.jacfwd(f, 1), (1, 1), 1),
            (np.stack([x, y]), np.stack([y, x])),
        ),
    ]:
        found, expected = transform(core, ours)(*args), transform(jax, theirs)(*args)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), found, expected)
    core.check_jaxpr(core.make_jaxpr(core.grad(ours))(3.0, 4.0))


@pytest.mark.parametrize("x", [2.0, 3, np.ones((2, 1), np.float16), np.arange(3, dtype=np.int8)])
def test_arguments_of_it_are_promoted_and_broadcast(x: Any) -> None:
    ours, y = run(1, 2)["hypot"], np.arange(1, 4, dtype=np.float32)
    for args in [(x, y), (y, x), (x, 4), (x, x)]:
        found, expected = ours(*args), jnp.hypot(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-3)
        assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
    found, expected = (
        lib.grad(lambda x, f=f: f(x * 1.0, y).sum())(x * 1.0)
        for lib, f in ((core, ours), (jax, jnp.hypot))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_debug_interpreter(capsys: Any) -> None:
    debug = run(4)["debug"]

    def f(x: Any) -> Any:
        return cnp.sin(x) * x

    assert np.allclose(debug(core.grad(f))(1.0), jax.grad(lambda x: jnp.sin(x) * x)(1.0))
    assert capsys.readouterr().out.splitlines()[:2] == [
        "sin 1.0 -> 0.84147096",
        "cos 1.0 -> 0.5403023",
    ]
    for transform in (core.jit, core.grad, core.vmap, core.checkpoint, core.jacfwd):
        x = np.ones(2, np.float32) if transform is core.vmap else 1.0
        assert np.allclose(transform(debug(f))(x), transform(f)(x))
        assert "sin Traced<f32[]>" in capsys.readouterr().out


def test_intervals() -> None:
    interval = run(5)["interval"]
    assert interval(lambda x, y: x * y + x, (-1.0, 2.0), (3.0, 4.0)) == (-5.0, 10.0)
    with pytest.raises(NotImplementedError, match=r"^`exp` has no interval rule: give it one with"):
        interval(cnp.exp, (0.0, 1.0))


def test_exercises_that_write() -> None:
    def checkpoint(f: Any) -> Any:
        kept = core.custom_vjp(f)
        kept.defvjp(lambda *xs: (f(*xs), xs), lambda xs, ct: core.vjp(f, *xs)[1](ct))
        return kept

    def hvp(lib: Any, f: Any, x: Any, v: Any) -> Any:
        return lib.jvp(lib.grad(f), (x,), (v,))[1]

    def f(lib: Any) -> Any:
        return lambda x: (lib.sin(x) * x**2).sum()

    x, v = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    assert np.allclose(core.grad(checkpoint(f(cnp)))(x), jax.grad(f(jnp))(x))
    assert np.allclose(hvp(core, f(cnp), x, v), hvp(jax, f(jnp), x, v))

    p = core.Primitive("logaddexp", abstract=lambda x, y: x)
    p.lower = core.lower_fun(lambda x, y: cnp.log(cnp.exp(x) + cnp.exp(y)))
    core.jvp_by_argument(
        p, lambda t, z, x, y: t * cnp.exp(x - z), lambda t, z, x, y: t * cnp.exp(y - z)
    )
    core.elementwise_batch(p)
    found = core.vmap(core.grad(p.bind), (0, None))(x, 1.0)
    assert np.allclose(found, jax.vmap(jax.grad(jnp.logaddexp), (0, None))(x, 1.0))


cube_p = core.Primitive("cube")
bad_p = core.Primitive("bad", abstract=lambda x, y: x)
bad_p.rule("lower")(lambda ctx, x, y: hlo.add(x, y))
wide_p = core.Primitive("wide", abstract=lambda x, y: x, lower=core.lower_fun(lambda x, y: x + y))
X = np.ones(3, np.float32)


def double(many: bool = False, **rules: Any) -> Any:
    """Returns a primitive that doubles, with some rules replaced."""
    own = {"abstract": lambda x: [x] if many else x, "lower": lambda ctx, x: hlo.add(x, x)}
    return core.Primitive("double", multiple_results=many, **own | rules).bind


def linear(transpose: Any) -> Any:
    """Returns a linear primitive that doubles, with this transpose rule."""
    bind = double(jvp=lambda xs, ts: (bind(*xs), bind(*ts)), transpose=transpose)
    return bind


MISTAKES = {
    "no type": lambda: cube_p.bind(1.0),
    "no op": lambda: core.Primitive("sixth", abstract=lambda x: x).bind(1.0),
    "no derivative": lambda: core.grad(bad_p.bind)(1.0, 1.0),
    "no batch": lambda: core.vmap(bad_p.bind)(X, X),
    "misspelt": lambda: cube_p.rule("transposed"),
    "no such kind": lambda: core.Primitive("fifth", backward=lambda x: x),
    "invalid op": lambda: bad_p.bind(X, 2.0),
    "another type": lambda: wide_p.bind(2.0, X),
    "no type returned": lambda: double(abstract=lambda x: None)(1.0),
    "a shape for a type": lambda: double(abstract=lambda x: (3,))(1.0),
    "a type for a list of types": lambda: double(many=True, abstract=lambda x: x)(1.0),
    "no op returned": lambda: double(lower=lambda ctx, x: None)(1.0),
    "a number for an op": lambda: double(many=True, lower=lambda ctx, x: [2.0])(1.0),
    "no tangent": lambda: core.grad(double(jvp=lambda xs, ts: None))(1.0),
    "three for a pair": lambda: core.grad(double(jvp=lambda xs, ts: [1.0, 2.0, 3.0]))(1.0),
    "a pair without lists": lambda: core.jvp(
        double(many=True, jvp=lambda xs, ts: (*xs, *ts)), (1.0,), (1.0,)
    ),
    "too few tangents": lambda: core.jvp(
        double(many=True, jvp=lambda xs, ts: (xs, [])), (1.0,), (1.0,)
    ),
    "no axis": lambda: core.vmap(double(batch=lambda size, xs, dims: xs[0]))(X),
    "no list of cotangents": lambda: core.grad(linear(lambda ct, x: ct))(1.0),
    "too many cotangents": lambda: core.grad(linear(lambda ct, x: [ct, None]))(1.0),
}


def test_a_mistake_in_a_rule_is_one_line_with_primitive_and_rule() -> None:
    """The lines are those of `core_mistakes.txt`."""
    lines = []
    for name, make in MISTAKES.items():
        with pytest.raises((NotImplementedError, TypeError)) as raised:
            make()
        assert "\n" not in str(raised.value)
        said = str(raised.value).partition(", partial")[0]  # behind it stand kinds that tests add
        lines += [f"{name}:", f"  {raised.type.__name__}: {said}"]
    approved("core_mistakes", "\n".join(lines))


def test_a_function_of_jax() -> None:
    names: dict[str, Any] = {"core": core, "cnp": cnp}
    exec(BLOCKS[-2], names)
    np.testing.assert_array_equal(core.jacobian(names["median"])(np.eye(3)[0]), [0, 0, 1])


def test_stream(capsys: Any) -> None:
    exec(BLOCKS[-1], {"core": core, "cnp": cnp})
    kinds = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"bind", "rule", "record", "run"} <= kinds


# ---- the map ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", re.findall(r"`(\w+)(?:\.py|/)`", README))
def test_files_are_there(name: str) -> None:
    folder = Path(core.__file__).parent
    assert list(folder.rglob(f"{name}.py")) or (folder / name).is_dir()


def test_no_file_is_left_out() -> None:
    folder = Path(core.__file__).parent
    named = set(re.findall(r"`(\w+)\.py`", README))
    ours = {p.stem for p in folder.rglob("*.py") if p.parent.name not in ("numpy", "lesson")}
    assert ours - named <= {"__init__"}


def file_of(name: str) -> Path:
    """The file of the innermost ring."""
    folders = ("kernel", "transforms", "primitives", "control", "aot")
    paths = (Path(core.__file__).parent / folder / f"{name}.py" for folder in folders)
    return next(path for path in paths if path.exists())


def minutes(path: Path) -> int:
    """At 10 code lines, or 250 words of docstrings, a minute."""
    text = path.read_text()
    return round(code_lines(text) / 10 + sum(map(words, ast.walk(ast.parse(text)))) / 250)


def words(node: ast.AST) -> int:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    return len((ast.get_docstring(node) or "").split()) if isinstance(node, documented) else 0


def test_the_sizes_of_the_rings() -> None:
    folder = Path(core.__file__).parent
    rows = re.findall(r"^\| (`[\w/.`, ]+`) \| .* \| ([\d,]+) \|$", README, re.MULTILINE)
    assert len(rows) == 4
    for names, said in rows:
        places = [folder / name for name in re.findall(r"`([\w./]+)`", names)]
        files = [
            path
            for place in places
            for path in (place.rglob("*.py") if place.is_dir() else [place])
        ]
        lines = sum(code_lines(path.read_text()) for path in files)
        assert abs(lines - int(said.replace(",", ""))) <= 30, f"{names}: {lines}"


def test_the_reading_path() -> None:
    """The kernel first, in the order of its imports; the minutes are those of the files' length."""
    rows = re.findall(r"\| (\d+) \| `(\w+)\.py` \| (\d+) \|", README)
    folder = Path(core.__file__).parent
    kernel = {p.stem for p in folder.glob("kernel/*.py")} - {"__init__"}
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert {name for _, name, _ in rows[: len(kernel)]} == kernel
    lines = 0
    for _, name, said in rows:
        path = file_of(name)
        lines += code_lines(path.read_text())
        assert abs(int(said) - minutes(path)) <= 5, f"{path.name}: {minutes(path)}"
    assert lines <= 2400


def test_no_file_of_the_core_is_long() -> None:
    every = Path(core.__file__).parent.rglob("*.py")
    assert {p.name for p in every if len(p.read_text().splitlines()) > 400} == set()
