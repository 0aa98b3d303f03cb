"""Each chapter runs by its path and without jax; its exercise takes a solution and nothing else."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jaxlens.core.lesson import interpreter

FOLDER = Path(interpreter.__file__).parent
COUNT = "self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1\n"
BIND = "with interpreting(self.parent):\n    return primitive.bind(*args, **params)\n"
FLAT = "leaves, in_tree = tree_flatten(tuple(primals))\nflat_f, out_trees = flat(f, in_tree)\n"
PUSH = "jvp_flat(flat_f, leaves, tree_flatten(tuple(tangents))[0])"
# By chapter: the function to complete, a solution, and likely answers that are wrong.
EXERCISES = {
    "interpreter": (
        "process",
        COUNT + BIND,
        (
            BIND,
            COUNT + "return RUN[primitive.name](*args, **params)",
            COUNT + BIND.replace("return ", ""),
        ),
    ),
    "jvp": (
        "exp_rule",
        "return mul(t, exp(x))",
        ("return exp(x)", "return t * np.exp(x)", "return t"),
    ),
    "tracing": (
        "dce",
        """\
needed, kept = set(jaxpr.outvars), []
for eqn in reversed(jaxpr.eqns):
    if needed & set(eqn.outvars):
        kept.append(eqn)
        needed |= {x for x in eqn.invars if isinstance(x, Var)}
return Jaxpr(jaxpr.invars, kept[::-1], jaxpr.outvars)
""",
        (
            """\
read = {x for eqn in jaxpr.eqns for x in eqn.invars if isinstance(x, Var)} | set(jaxpr.outvars)
return Jaxpr(jaxpr.invars, [e for e in jaxpr.eqns if read & set(e.outvars)], jaxpr.outvars)
""",
            """\
jaxpr.eqns[:] = [jaxpr.eqns[0], jaxpr.eqns[-1]]
return jaxpr
""",
            "return jaxpr",
        ),
    ),
    "vmap": (
        "jacfwd",
        """\
def jacobian(x):
    columns = vmap(lambda t: jvp(f, (x,), (t,))[1])(np.eye(len(x)))
    return np.moveaxis(columns, 0, -1)
return jacobian
""",
        (
            "return lambda x: vmap(lambda t: jvp(f, (x,), (t,))[1])(np.eye(len(x)))",
            "return lambda x: jvp(f, (x,), (np.ones(len(x)),))[1]",
            "return f",
        ),
    ),
    "vjp": (
        "roll_transposed",
        "return roll(ct, -shift)",
        ("return roll(ct, shift)", "return ct", "return np.roll(ct, -shift)"),
    ),
    "jit": (
        "jit_static",
        """\
by_n = {}
def jitted(x, n):
    if n not in by_n:
        by_n[n] = jit(lambda x: f(x, n), backend)
    return by_n[n](x)
return jitted
""",
        (
            "return lambda x, n: jit(lambda x: f(x, n), backend)(x)",
            "return jit(f, backend)",
            """\
programs = []
def jitted(x, n):
    programs.append(jit(lambda x: f(x, n), backend))
    return programs[0](x)
return jitted
""",
        ),
    ),
    "trees": (
        "jvp",
        FLAT + f"results, changes = {PUSH}\n"
        "return tree_unflatten(out_trees[0], results), tree_unflatten(out_trees[0], changes)",
        (
            "return f(*primals), f(*tangents)",
            FLAT + f"return {PUSH}",
            FLAT + f"results, changes = {PUSH}\n"
            "return tree_unflatten(in_tree, results)[0], tree_unflatten(in_tree, changes)[0]",
        ),
    ),
}
NO_JAX = "raise ImportError('jax is not here')\n"
# Runs the chapters of each folder one after the other, each as `python PATH` would.
CHILD = """
import os, runpy, sys
for path in sys.argv[1:]:
    for name in [n for n in sys.modules if n == "chapter" or n.split(".")[0] == "lesson"]:
        del sys.modules[name]
    os.chdir(os.path.dirname(path))  # which is where imports look first, with `python -c`
    print("=====", path)
    runpy.run_path(path, run_name="__main__")
print("===== /9/import.py")
import chapter
from lesson.trees import grad
print(grad(lambda p: p["x"] * p["x"])({"x": 1.5})["x"])
"""


def completed(text: str, function: str, body: str) -> str:
    """A chapter with a body for the function that is to be completed: after its docstring."""
    lines = text.splitlines()
    [doc] = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == function and len(node.body) == 1
        if "omplete" in (ast.get_docstring(node) or "")
    ]
    lines[doc.end_lineno : doc.end_lineno] = [" " * doc.col_offset + x for x in body.splitlines()]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each chapter prints: as it is, solved, and with each of the three wrong answers."""
    root = tmp_path_factory.mktemp("a b é")
    for name in ("jax", "jaxlib"):
        (root / f"{name}.py").write_text(NO_JAX)
    paths = []
    for number in range(5):
        folder = root / str(number)
        folder.mkdir()
        for path in FOLDER.glob("*.py"):
            text = path.read_text()
            if number and path.stem in EXERCISES:
                function, solution, wrong = EXERCISES[path.stem]
                text = completed(text, function, (solution, *wrong)[number - 1])
            (folder / path.name).write_text(text)
        paths += [str(folder / f"{name}.py") for name in EXERCISES]
    command = [sys.executable, "-c", CHILD, *paths]
    environment = {"PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    assert done.stderr == ""
    parts = re.split(r"^===== .*/(\d)/(\w+)\.py$", done.stdout, flags=re.MULTILINE)[1:]
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {(int(number), name): text for number, name, text in triples}


@pytest.mark.parametrize("chapter", EXERCISES)
def test_a_chapter_runs_alone(outputs, chapter):
    text = outputs[0, chapter]
    assert text.count("\n---- ") >= 2
    assert ("(not run: jax is not here)" in text) == (chapter == "jit")
    said = text.strip().splitlines()[-1]
    assert said.startswith("Exercise: not solved yet: `")
    assert re.search(r"` gives .* and must give .", said)
    assert "Traceback" not in text


def test_it_can_be_imported_without_jaxlens(outputs):
    assert outputs[9, "import"].strip() == "3.0"


@pytest.mark.parametrize("chapter", EXERCISES)
def test_an_exercise_can_be_solved(outputs, chapter):
    assert outputs[1, chapter].strip().splitlines()[-1] == "Exercise: solved."


@pytest.mark.parametrize("answer", [0, 1, 2])
@pytest.mark.parametrize("chapter", EXERCISES)
def test_a_wrong_answer_is_refused(outputs, chapter, answer):
    text = outputs[2 + answer, chapter]
    said = text.strip().splitlines()[-1]
    assert said.startswith("Exercise: not solved yet: `"), said
    assert "Traceback" not in text
