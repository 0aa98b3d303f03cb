"""The kernel alone: its size, what it imports, the rings around it, and that it works by itself."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from jaxlens import core

CORE = Path(core.__file__).parent
KERNEL = CORE / "kernel"
FILES = ["types", "tree", "interpreter", "jaxpr", "trace", "basics", "jvp", "vmap", "vjp", "run"]
SURFACE = {"numpy", "primitives", "control", "parallel"}
SURFACE_FILES = {"jacobians", "lax", "nn", "random", "tree"}
SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """The lines that hold a token which is no comment, docstring or blank."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def imports(path: Path) -> set[str]:
    """The modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def ring(module: str) -> int:
    """0 is the kernel, 1 the transforms, 2 the surface, 3 programs on devices."""
    part = module.removeprefix("jaxlens.core.").split(".")[0]
    if part in SURFACE | SURFACE_FILES:
        return 2
    return {"kernel": 0, "transforms": 1, "aot": 3}[part]


def test_the_kernel_is_an_evening() -> None:
    assert {path.stem for path in KERNEL.glob("*.py")} == {"__init__", *FILES}
    assert sum(code_lines(path.read_text()) for path in KERNEL.glob("*.py")) <= 1100


def test_the_kernel_imports_numpy_and_jaxlib_only() -> None:
    """And of itself only files that come before in the order of reading."""
    outside, late = set(), []
    for path in KERNEL.glob("*.py"):
        for name in imports(path):
            if name.startswith("jaxlens"):
                target = name.removeprefix("jaxlens.core.kernel.").split(".")[0]
                if FILES.index(target) >= FILES.index(path.stem):
                    late.append(f"{path.name} imports {name}")
            elif name.split(".")[0] not in sys.stdlib_module_names:
                outside.add(name.split(".")[0])
    assert outside == {"numpy", "jaxlib", "ml_dtypes"}  # bfloat16 is the dtype that NumPy lacks
    assert late == []


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda p: str(p.relative_to(CORE)))
def test_a_ring_imports_inner_rings_only(path: Path) -> None:
    if path == CORE / "__init__.py":
        return
    own = ".".join(path.relative_to(CORE).with_suffix("").parts)
    for name in imports(path):
        if not name.startswith("jaxlens"):
            continue
        inner = name.removeprefix("jaxlens.core.")
        assert inner != name, f"{own} imports {name}, of no ring"
        assert ring(inner) <= ring(own), f"{own} imports {name}, of a ring further out"


ALONE = """
import sys, types
package = types.ModuleType("jaxlens.core")          # without its __init__, which imports all rings
package.__path__ = [{path!r}]
sys.modules["jaxlens.core"] = package

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo
from jaxlens.core.kernel.basics import Linear, Zero, add_any_p, examples_first, reduce_sum
from jaxlens.core.kernel.interpreter import Primitive
from jaxlens.core.kernel.jvp import jvp
from jaxlens.core.kernel.run import jit
from jaxlens.core.kernel.trace import make_jaxpr
from jaxlens.core.kernel.vjp import vjp
from jaxlens.core.kernel.vmap import vmap

sin_p = Primitive("sin", abstract=lambda x: x, lower=lambda ctx, x: hlo.sine(x))
cos_p = Primitive("cos", abstract=lambda x: x, lower=lambda ctx, x: hlo.cosine(x))
mul_p = Primitive("mul", abstract=lambda x, y: x, lower=lambda ctx, x, y: hlo.multiply(x, y))
sin, cos, mul = sin_p.bind, cos_p.bind, mul_p.bind
for p in (sin_p, cos_p, mul_p):
    p.batch = examples_first(p, lambda size: {{}})

@sin_p.rule("jvp")
def _(primals, tangents):
    return sin(*primals), mul(*tangents, cos(*primals))

@cos_p.rule("jvp")
def _(primals, tangents):
    return cos(*primals), mul(mul(*tangents, sin(*primals)), np.float32(-1))

@mul_p.rule("jvp")
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    parts = [mul(*pair) for pair in ((dx, y), (x, dy)) if Zero not in map(type, pair)]
    return mul(x, y), parts[0] if len(parts) == 1 else add_any_p.bind(*parts)

@mul_p.rule("transpose")
def _(ct, x, y):
    return [mul(ct, y), None] if type(x) is Linear else [None, mul(x, ct)]

def f(x):
    return mul(sin(x), x)

def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6)

def slope(x):
    return vjp(f, x)[1](np.float32(1))[0]

x, xs = np.float32(0.5), np.arange(4, dtype=np.float32)
assert str(make_jaxpr(f)(x)).split() == (
    "{{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = mul b a in (c,) }}".split()
)
close(f(x), np.sin(x) * x)
close(jvp(f, (x,), (np.float32(2),)), (np.sin(x) * x, 2 * (np.cos(x) * x + np.sin(x))))
close(slope(x), np.cos(x) * x + np.sin(x))
close(jit(slope)(x), np.cos(x) * x + np.sin(x))
close(vmap(f)(xs), np.sin(xs) * xs)
close(jit(vmap(slope))(xs), np.cos(xs) * xs + np.sin(xs))
close(vmap(lambda x, y: mul(x, y), (0, None))(xs, x), xs * x)
close(jvp(lambda x: vjp(f, x)[1](np.float32(1))[0], (x,), (np.float32(1),))[1],
      2 * np.cos(x) - np.sin(x) * x)
close(vjp(jit(f), x)[1](np.float32(1))[0], slope(x))
close(jit(jit(f))(x), f(x))
close(vjp(lambda v: reduce_sum(vmap(f)(v), (0,)), xs)[1](np.float32(1))[0],
      np.cos(xs) * xs + np.sin(xs))

# Perturbation confusion: d/dx [x * d/dy (x + y)] is 1.
def inner(x):
    return vjp(lambda y: add_any_p.bind(x, y), np.float32(1))[1](np.float32(1))[0]

close(vjp(lambda x: mul(x, inner(x)), np.float32(3))[1](np.float32(1))[0], 1)

assert not [name for name in sys.modules if name == "jax" or name.startswith("jax.")]
parts = {{name.split(".")[2] for name in sys.modules if name.startswith("jaxlens.core.")}}
assert parts == {{"kernel"}}
"""


@pytest.mark.backend
def test_the_kernel_works_alone() -> None:
    """Two primitives in a few lines: traced, printed, differentiated, batched and run, no JAX."""
    subprocess.run([sys.executable, "-c", ALONE.format(path=str(CORE))], check=True)
