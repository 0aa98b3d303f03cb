"""The lesson computes what JAX computes, in all pairs of transforms, and prints what it says."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.core.lesson import interpreter, jit, jvp, tracing, trees, vjp, vmap

FOLDER = Path(interpreter.__file__).parent
CHAPTERS = ["interpreter", "jvp", "tracing", "vmap", "vjp", "jit", "trees"]
pytestmark = pytest.mark.backend

# ---- twenty programs of one number --------------------------------------------------------------

SCALAR = [
    lambda sin, x: x,
    lambda sin, x: 2.5,
    lambda sin, x: sin(x),
    lambda sin, x: sin(sin(x)),
    lambda sin, x: x * x,
    lambda sin, x: x * x * x * x,
    lambda sin, x: 3.0 * x + 1.0,
    lambda sin, x: 1.0 + x * 3.0,
    lambda sin, x: x - 2.0 * x * x,
    lambda sin, x: sin(x) * x,
    lambda sin, x: sin(x * x) + x,
    lambda sin, x: sin(x + 1.0) * sin(x - 1.0),
    lambda sin, x: (x + 1.0) * (x + 2.0) * (x + 3.0),
    lambda sin, x: sin(2.0) * x,
    lambda sin, x: sin(x) * sin(x) * sin(x),
    lambda sin, x: sin(x * sin(x * sin(x))),
    lambda sin, x: x * 0.0 + sin(x * 0.5),
    lambda sin, x: np.float64(2.0) * x + x * np.float64(0.5),
    lambda sin, x: x + x + x + sin(x + x),
    lambda sin, x: x * np.sin(1.0) * (sin(x) - x * x),
]
SCALES = np.array([0.5, -1.0, 2.0])
AT = 0.7


def ride(f):
    """The sum of f over scales of x, by vmap."""
    return lambda x: vjp.total(vmap.vmap(lambda scale: f(x * scale))(SCALES))


# Each makes a function of a number of a function of a number.
TRANSFORMS = {
    "value": lambda f: f,
    "jvp": lambda f: lambda x: jvp.jvp(f, (x,), (1.0,))[1],
    "grad": vjp.grad,
    "vjp": lambda f: lambda x: vjp.vjp(f, x)[1](2.0)[0],
    "vmap": ride,
    "jaxpr": lambda f: lambda x: tracing.eval_jaxpr(tracing.make_jaxpr(f)(x), x)[0],
    "jit": lambda f: jit.jit(f, jit.by_numpy),
}
SLOPES = {"jvp": 1.0, "grad": 1.0, "vjp": 2.0}
POINTS = np.unique(np.append(np.outer(SCALES, SCALES), SCALES)) * AT  # with 1 among them


@pytest.fixture(scope="module")
def derivatives():
    """What JAX says of each program: value, first and second derivative at all points."""

    with jax.enable_x64(True):
        x = jnp.asarray(POINTS)
        ones = jnp.ones_like(x)
        programs = [lambda x, p=p: x * 0.0 + p(jnp.sin, x) for p in SCALAR]

        def value_and_slope(x):
            return jax.jvp(lambda x: jnp.stack([p(x) for p in programs]), (x,), (ones,))

        def all_of_them(x):
            (value, first), (_, second) = jax.jvp(value_and_slope, (x,), (ones,))
            return value, first, second

        return list(map(np.asarray, jax.jit(all_of_them)(x)))


def by_jax(derivatives, outer, inner):
    """The result of a pair of transforms, from JAX's derivatives."""
    terms = [(1.0, 0, 1.0)]  # at this scale, of this order, times this factor
    for name in (inner, outer):
        if name in SLOPES:
            terms = [(s, order + 1, factor * s * SLOPES[name]) for s, order, factor in terms]
        elif name == "vmap":
            terms = [(s * t, order, factor) for s, order, factor in terms for t in SCALES]
    # A slope of a vmap has the scale as a factor, and a vmap of a slope has not.
    at = {round(point / AT, 6): i for i, point in enumerate(POINTS)}
    return sum(factor * derivatives[order][:, at[round(s, 6)]] for s, order, factor in terms)


@pytest.mark.parametrize("inner", TRANSFORMS)
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_programs_of_a_number(derivatives, outer, inner):
    programs = [lambda x, p=p: p(interpreter.sin, x) for p in SCALAR]
    found = [TRANSFORMS[outer](TRANSFORMS[inner](p))(AT) for p in programs]
    right = by_jax(derivatives, outer, inner)
    np.testing.assert_allclose(np.array(found, float), right, 1e-9, 1e-9)


@pytest.mark.parametrize("inner", ["vjp", "vmap"])
def test_programs_of_a_number_that_xla_runs(derivatives, inner):
    programs = [TRANSFORMS[inner](lambda x, p=p: p(interpreter.sin, x)) for p in SCALAR]
    found = trees.jit(lambda x: [p(x) for p in programs])(AT)
    np.testing.assert_allclose(found, by_jax(derivatives, "jit", inner), 2e-5, 2e-5)


# ---- programs of a vector -----------------------------------------------------------------------

A = np.array([[1.0, 2.0, -1.0], [0.5, -0.5, 3.0]])
VECTOR = [
    lambda sin, total, x: total(x) * total(x * x),
    lambda sin, total, x: total(sin(A * x) * A),
    lambda sin, total, x: sin(total(x * 2.0 + 1.0)),
    lambda sin, total, x: total(sin(total(x) * x)),
    lambda sin, total, x: 1.0,
]
X, V = np.array([0.3, -0.8, 1.1]), np.array([1.0, 0.0, -2.0])
XS = np.stack([X, V, X * V])
WAYS = {
    "value": lambda t, f: f(X),
    "grad": lambda t, f: t.grad(f)(X),
    "jvp of grad": lambda t, f: t.jvp(t.grad(f), (X,), (V,))[1],
    "vjp of grad": lambda t, f: t.vjp(t.grad(f), X)[1](V)[0],
    "grad of jvp": lambda t, f: t.grad(lambda x: t.jvp(f, (x,), (V,))[1])(X),
    "vmap": lambda t, f: t.vmap(f)(XS),
    "vmap of grad": lambda t, f: t.vmap(t.grad(f))(XS),
    "vmap of vmap": lambda t, f: t.vmap(lambda x: t.vmap(lambda y: f(x * y))(XS))(XS),
    "vmap, one for all": lambda t, f: t.vmap(lambda x, y: f(x * y), (0, None))(XS, V),
    "grad of vmap": lambda t, f: t.grad(lambda x: t.total(t.vmap(lambda y: f(x * y))(XS)))(X),
    "jit of vmap of jvp": lambda t, f: t.jit(t.vmap(lambda x: t.jvp(f, (x,), (V,))[1]))(XS),
}


class Ours:
    grad, jvp, vjp, vmap, jit, total = (
        *(staticmethod(f) for f in (vjp.grad, jvp.jvp, vjp.vjp, vmap.vmap, jit.jit, vjp.total)),
    )


class Theirs:
    grad, jvp, vjp, vmap, total = map(staticmethod, (jax.grad, jax.jvp, jax.vjp, jax.vmap, jnp.sum))
    jit = staticmethod(lambda f: f)


def test_programs_of_a_vector():
    def reference():
        programs = [lambda x, p=p: p(jnp.sin, jnp.sum, x) * 1.0 for p in VECTOR]
        return [[jnp.asarray(way(Theirs, f)) for f in programs] for way in WAYS.values()]

    with jax.enable_x64(True):
        theirs = jax.jit(reference)()
    programs = [lambda x, p=p: p(interpreter.sin, vjp.total, x) for p in VECTOR]
    for (name, way), rights in zip(WAYS.items(), theirs, strict=True):
        tolerance = 2e-5 if "jit" in name else 1e-9
        for number, (f, right) in enumerate(zip(programs, rights, strict=True)):
            found = np.asarray(way(Ours, f), float)
            assert found.shape == right.shape, (name, number)
            message = f"{name} of program {number}"
            np.testing.assert_allclose(found, right, tolerance, tolerance, err_msg=message)


def test_trees_go_through_every_transform():
    tree = {"w": (1.5, [2.0]), "b": X}

    def f(p, x):
        return {"out": p["w"][0] * x + p["w"][1][0], "rest": (p["b"] * x,)}

    def number(p, x):
        return vjp.total(f(p, x)["rest"][0]) * f(p, x)["out"]

    def number_by_jax(p, x):
        return f(p, x)["rest"][0].sum() * f(p, x)["out"]

    def same(ours, theirs):
        leaves, form = jax.tree.flatten(ours)
        rights, right_form = jax.tree.flatten(theirs)
        assert form == right_form
        for leaf, right in zip(leaves, rights, strict=True):
            np.testing.assert_allclose(leaf, right, 1e-5, 1e-6)

    same(trees.jit(f, jit.by_numpy)(tree, 2.0), f(tree, 2.0))
    same(trees.grad(number)(tree, 2.0), jax.grad(number_by_jax)(tree, 2.0))
    y, pullback = trees.vjp(f, tree, 2.0)
    y_jax, pullback_jax = jax.vjp(f, tree, 2.0)
    same(y, y_jax)
    same(pullback(y), pullback_jax(y_jax))
    found = trees.vmap(lambda p, row: f(p, row["x"]), (None, 0))(tree, {"x": SCALES})
    same(found, jax.tree.map(lambda *xs: np.stack(xs), *[f(tree, scale) for scale in SCALES]))
    compiled = trees.jit(trees.grad(number), jit.by_numpy)
    same(compiled(tree, 2.0), jax.grad(number_by_jax)(tree, 2.0))
    assert trees.tree_flatten(tree)[0][1:] == jax.tree.leaves(tree)[1:]


@pytest.mark.parametrize("number", [5, 7, 9, 10, 12, 14, 18])
def test_a_jaxpr_is_printed_as_jax_prints_it(number):
    program = SCALAR[number]
    ours = str(tracing.make_jaxpr(lambda x: program(interpreter.sin, x))(1.0)).replace(";", "")
    theirs = str(jax.make_jaxpr(lambda x: program(jnp.sin, x))(jnp.float32(1.0)))
    assert ours.split() == theirs.replace(";", "").split()


def test_functions_do_not_share_programs():
    first, second = (jit.jit(lambda x, n=n: x * n, jit.by_numpy) for n in (2.0, 3.0))
    assert (first(1.0), second(1.0), first(2.0)) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tracing.trace(lambda x, y: x + y, (3,), (4,)), r"shapes \(3,\) and \(4,\) do not"),
        (lambda: vmap.vmap(lambda x, y: x * y)(X, A), r"as many examples .* there are \[2, 3\]"),
        (lambda: vjp.grad(lambda x: x * 2.0)(X), r"one number, not to shape \(3,\)"),
        (lambda: trees.grad(lambda x: x * 2.0)(X), r"one number, not to shape \(3,\)"),
        (lambda: jit.jit(lambda x: 1.0 if x > 0 else x)(1.0), r"StagedTracer\[\] stands for a"),
        (lambda: vjp.grad(lambda x: x if x == 1.0 else 0.0)(1.0), r"JVPTracer\[\] stands for a"),
        (lambda: vmap.vmap(lambda x: float(x))(X), r"BatchTracer\[\] stands for a"),
    ],
)
def test_what_cannot_be_done_says_so(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call()
    assert interpreter.current() is interpreter.GROUND


# ---- what the files say -------------------------------------------------------------------------


class NearlyAlike(doctest.OutputChecker):
    """Compares texts; numbers in them may differ in their last digits."""

    def check_output(self, want, got, flags):
        number = r"-?\d+\.\d+"
        if re.sub(number, "#", " ".join(want.split())) != re.sub(
            number, "#", " ".join(got.split())
        ):
            return False
        pairs = (np.array(re.findall(number, text), float) for text in (want, got))
        return bool(np.allclose(*pairs, rtol=1e-6, atol=1e-9))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_examples_print_what_stands_below_them(chapter):
    module = importlib.import_module(f"jaxlens.core.lesson.{chapter}")
    runner = doctest.DocTestRunner(NearlyAlike(), verbose=False)
    exercises, said = 0, []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, chapter):
        if test.docstring.startswith("Exercise"):
            exercises += 1
        elif test.examples:
            runner.run(test, out=said.append)
    assert "".join(said) == ""
    assert exercises == 1
    assert runner.tries >= 3


def code_lines(path):
    tree = ast.parse(path.read_text())
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    docs = set()
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            docs |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for n, x in lines if n not in docs and x.strip() and not x.strip().startswith("#"))


def test_the_files_that_it_leads_to_are_there():
    text = "".join((FOLDER / f"{chapter}.py").read_text() for chapter in CHAPTERS)
    ours = set(re.findall(r"\bkernel/\w+\.py|\bjacobians\.py", text))
    theirs = set(re.findall(r"\bjax/_src/[\w/]+\.py", text))
    assert len(ours) >= 7
    assert len(theirs) >= 7
    assert [path for path in ours if not (FOLDER.parent / path).exists()] == []
    assert [path for path in theirs if not (Path(jax.__file__).parents[1] / path).exists()] == []


def test_it_is_short():
    assert sum(map(code_lines, FOLDER.glob("*.py"))) <= 550
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                doc = node.body[0] if ast.get_docstring(node) is not None else None
                lines = node.end_lineno - node.lineno + 1
                lines -= doc.end_lineno - doc.lineno + 1 if doc else 0
                assert lines <= 30, (path.name, node.name)


def test_the_readme_names_the_chapters_and_their_minutes():
    rows = re.findall(
        r"\| (\d) \| `(\w+)\.py` \| (\d+) \| (\d+) \|", (FOLDER / "README.md").read_text()
    )
    assert [(int(number), name) for number, name, *_ in rows] == list(enumerate(CHAPTERS, 1))
    for _, name, minutes, _ in rows:  # 250 words and 10 lines a minute
        path = FOLDER / f"{name}.py"
        examples = len(re.findall(r"^ +(?:>>>|\.\.\.)", path.read_text(), re.MULTILINE))
        words = len(re.findall(r"[A-Za-z]+", path.read_text())) - 6 * code_lines(path)
        assert int(minutes) >= words / 250 + (code_lines(path) + examples) / 10 - 2, name
    assert sum(int(row[3]) for row in rows) <= 120
