"""The kernel alone: its size, what it imports, the rings around it, and that it works by itself."""

import ast
import importlib
import inspect
import io
import sys
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxlens import core
from tests.support.paths import run_python

CORE = Path(core.__file__).parent
KERNEL = CORE / "kernel"
FILES = "types sources interpreter jaxpr trace basics jvp vmap vjp run".split()
SURFACE = {"primitives", "control"}
SURFACE_FILES = {"tree"}
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
    """0 is the kernel, 1 the transforms, 2 the surface, 3 programs on devices, 4 on several."""
    part = module.removeprefix("jaxlens.core.").split(".")[0]
    if part in SURFACE | SURFACE_FILES:
        return 2
    return {
        "kernel": 0,
        "transforms": 1,
        "aot": 3,
        "debug": 3,
        "interop": 3,
        **dict.fromkeys(("numpy", "nn", "random", "lax", "jacobians", "folds"), 3),
        "parallel": 4,
        "lesson": 4,
    }[part]


def test_the_kernel_has_ten_files() -> None:
    assert {path.stem for path in KERNEL.glob("*.py")} == {"__init__", *FILES}
    # What is read in an evening; ten lines of it say which rule of a primitive returned nonsense.
    assert sum(code_lines(path.read_text()) for path in KERNEL.glob("*.py")) <= 1050


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
from jaxlens.core.kernel.interpreter import GROUND, Primitive, aval_of
from jaxlens.core.kernel.jaxpr import as_function
from jaxlens.core.kernel.jvp import jvp_flat
from jaxlens.core.kernel.run import Backend, jit_p
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.vjp import backward_pass, linearize_flat
from jaxlens.core.kernel.vmap import batch_flat

GROUND.backend = Backend()

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

def traced(f, x):
    return trace(lambda x: [f(x)], [aval_of(x)])

def jit(f):
    return lambda x: jit_p.bind(x, jaxpr=traced(f, x), name="f")[0]

def grad(f, one=np.float32(1)):
    def gradient(x):
        _, closed = linearize_flat(lambda x: [f(x)], [x])
        return backward_pass(closed.jaxpr, closed.consts, [Linear(aval_of(x))], [one])[0]
    return gradient

def vmap(f):
    return lambda xs: batch_flat(lambda x: [f(x)], aval_of(xs).shape[0], [xs], [0])[0][0]

x, xs = np.float32(0.5), np.arange(4, dtype=np.float32)
assert str(traced(f, x)).split() == (
    "{{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = mul b a in (c,) }}".split()
)
close(f(x), np.sin(x) * x)
values, tangents = jvp_flat(lambda x: [f(x)], [x], [np.float32(2)])
close(values + tangents, [np.sin(x) * x, 2 * (np.cos(x) * x + np.sin(x))])
slope = grad(f)
close(slope(x), np.cos(x) * x + np.sin(x))
close(jit(slope)(x), np.cos(x) * x + np.sin(x))
close(vmap(f)(xs), np.sin(xs) * xs)
close(jit(vmap(slope))(xs), np.cos(xs) * xs + np.sin(xs))
close(vmap(lambda y: mul(y, x))(xs), xs * x)
close(jvp_flat(lambda x: [slope(x)], [x], [np.float32(1)])[1], [2 * np.cos(x) - np.sin(x) * x])
close(jit(jit(f))(x), f(x))
close(grad(lambda v: reduce_sum(vmap(f)(v), (0,)))(xs), np.cos(xs) * xs + np.sin(xs))

# Perturbation confusion: d/dx [x * d/dy (x + y)] is 1.
def inner(x):
    return grad(lambda y: add_any_p.bind(x, y))(np.float32(1))

close(grad(lambda x: mul(x, inner(x)))(np.float32(3)), 1)

assert not [name for name in sys.modules if name == "jax" or name.startswith("jax.")]
parts = {{name.split(".")[2] for name in sys.modules if name.startswith("jaxlens.core.")}}
assert parts == {{"kernel"}}
"""


@pytest.mark.backend
def test_the_kernel_works_alone() -> None:
    """Three primitives in a few lines: traced, printed, differentiated, batched and run, no JAX."""
    run_python(ALONE.format(path=str(CORE)))


# ---- nothing of the kernel is replaced ----------------------------------------------------------

HANDED_IN = {("jit", kind) for kind in ("jvp", "batch", "partial", "transpose")}


def test_primitives_of_the_kernel_have_the_rules_that_its_files_define() -> None:
    """But for what `core/__init__.py` hands in: the rules of the call primitive."""
    kernel = [importlib.import_module(f"jaxlens.core.kernel.{name}") for name in FILES]
    primitives = {v for m in kernel for v in vars(m).values() if isinstance(v, core.Primitive)}
    foreign = {
        (primitive.name, kind)
        for primitive in primitives
        for kind, rule in vars(primitive).items()
        if callable(rule) and not rule.__module__.startswith("jaxlens.core.kernel")
    }
    assert len(primitives) == 7
    assert foreign == HANDED_IN


def test_functions_and_methods_of_the_kernel_are_those_of_its_files() -> None:
    for name in FILES:
        module = importlib.import_module(f"jaxlens.core.kernel.{name}")
        tree = ast.parse((KERNEL / f"{name}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                assert inspect.unwrap(getattr(module, node.name)).__module__ == module.__name__
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    if isinstance(member, ast.FunctionDef):
                        found = inspect.getattr_static(getattr(module, node.name), member.name)
                        code = getattr(getattr(found, "fget", found), "__func__", found)
                        code = getattr(code, "fget", code)
                        assert code.__module__ == module.__name__, (node.name, member.name)


@pytest.mark.backend
def test_a_users_program_reaches_the_functions_of_the_kernel() -> None:
    """A breakpoint in any of these is hit."""
    reached: set[str] = set()

    def tracer(frame: Any, event: str, _: Any) -> None:
        if Path(frame.f_code.co_filename).parent == KERNEL:
            reached.add(frame.f_code.co_qualname)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        step = core.jit(core.vmap(core.grad(core.jit(lambda x: x.sum()))))
        step(np.ones((2, 3), np.float32)) + 1
        core.jvp(lambda x: x * x, (2.0,), (1.0,))
    finally:
        sys.settrace(before)
    assert reached >= {
        *("Primitive.bind", "Ground.process", "Staging.process", "JVP.process", "Batch.process"),
        *("Partial.process", "trace", "eval_jaxpr", "jvp_flat", "linearize_flat", "batch_flat"),
        *("backward_pass", "lower_body", "Backend.run"),
    }
