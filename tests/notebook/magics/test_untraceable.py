"""Errors of tracing show the user's own lines, and the shell goes on working."""

import re
import sys
from pathlib import Path
from traceback import walk_tb

import numpy
import pytest

from tests.support.paths import ROOT, without_folders

SETUP = "import jax, jax.numpy as jnp, numpy as np\nx, w = jnp.ones((2, 3)), jnp.ones((3, 4))"


CASES = {
    "a string to an op": (
        "def f(x):\n    return jnp.sin('a')\nf(x)",
        "TypeError",
        ["----> 4 f(x)", "----> 3     return jnp.sin('a')"],
    ),
    "shapes that do not fit": (
        "def g(x):\n    return x @ jnp.ones(9)\ndef f(x):\n    return g(x)\nf(x)",
        "TypeError",
        ["----> 6 f(x)", "----> 5     return g(x)", "----> 3     return x @ jnp.ones(9)"],
    ),
    "the user's own error": (
        "def f(x):\n    raise KeyError('mine')\nf(x)",
        "KeyError",
        ["----> 4 f(x)", "----> 3     raise KeyError('mine')"],
    ),
    "behind an assignment": (
        "def f(x):\n    raise KeyError('mine')\ny = f(x)",
        "KeyError",
        ["----> 4 y = f(x)", "----> 3     raise KeyError('mine')"],
    ),
    "a jitted if": (
        "@jax.jit\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return -x\nf(x)",
        "TracerBoolConversionError",
        ["----> 7 f(x)", "----> 4     if x.sum() > 0:"],
    ),
}


@pytest.mark.parametrize(("code", "error", "lines"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("verb", ["jaxpr", "compile"])
def test_the_users_lines(run, verb, code, error, lines):
    ran = run(f"%%{verb}\n{code}")
    assert type(ran.error).__name__ == error
    for line in lines:
        assert line in ran.out
    for ours in ("jaxlens/", "run_cell_magic", "0 / 0", "ZeroDivision"):
        assert ours not in without_folders(ran.out)
    assert run("%jaxpr x + 1").ok


# A user's file may lie beside the package, or below the folder of the environment.
FILES = {
    "beside the package": ROOT / "jaxlens_try.py",
    "in a clone of the clone": ROOT / "jaxlens-2" / "train.py",
    "where the environment is": Path(sys.prefix) / "train.py",
    "where Python is": Path(sys.base_prefix) / "src" / "train.py",
    "a package named like jaxlens": Path(numpy.__file__).parents[1] / "jaxlens_more" / "train.py",
}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_a_file_is_the_users_wherever_it_lies(run, shell, file):
    source = "def f(x):\n    return g(x)\ndef g(x):\n    raise KeyError('mine')\n"
    exec(compile(source, str(file), "exec"), shell.user_ns)
    ran = run("%%jaxpr\nf(x)")
    functions = [frame.f_code.co_name for frame, _ in walk_tb(ran.error.__traceback__)]
    assert functions == ["<module>", "f", "g"]


EXPLAINED = {
    "raised by the transform": ("jax.grad(lambda x: x * 2)(x)", "a function whose result is one"),
    "before the trace": ("jax.vmap(lambda a, b: a + b)(x, w)", "whose lengths differ"),
    "while it lowers": (
        "def f(x, y):\n"
        "    g = jax.custom_vjp(lambda a: a * y)\n"
        "    g.defvjp(lambda a: (a * y, None), lambda _, b: (b * y,))\n"
        "    return jax.lax.scan(lambda c, _: (g(c), None), x, length=3)[0]\n"
        "jax.jit(jax.grad(f))(1.0, 2.0)",
        "uses a traced value of the function around it",
    ),
    "while it runs": ("y = x + 1\ny.delete()\nprint(y)", "took its buffer"),
}


@pytest.mark.parametrize(("code", "words"), EXPLAINED.values(), ids=EXPLAINED)
def test_an_error_of_jaxs_is_explained_once_above_its_traceback(run, code, words):
    ran = run(f"%%compile\n{code}")
    notes = " ".join(ran.error.__notes__)  # for %tb, logs and other front ends
    assert words in notes
    assert notes.count("jaxlens: ") == 1
    assert words in " ".join(ran.shown.split())
    assert type(ran.error).__name__ in ran.out
    assert "jaxlens: " not in ran.out


def test_a_note_that_is_no_explanation_stays_with_the_traceback(run):
    ran = run("%%jaxpr\ne = KeyError('mine')\ne.add_note('jaxlens: a word')\nraise e")
    assert "jaxlens: a word" in ran.out
    assert "KeyError: 'mine'" in ran.out
    assert not ran.shown


def test_what_to_write_stands_above_the_traceback(run):
    code = (
        "@jax.jit\ndef f(x):\n    y = x * 2\n    if y.sum() > 0:\n        return y\n    return -y"
    )
    ran = run(f"%%jaxpr\n{code}\nf(x)")
    assert "return jnp.where(y.sum() > 0, y, -y)" in ran.shown
    assert "return jnp.where(y.sum() > 0, y, -y)" in run("%explain").shown


RUNS = {
    "a Python if": (
        "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x\nf(x)",
        "cell 2:3: if x.sum() > 0:",
    ),
    "NumPy in a function": (
        "def f(x):\n    return np.tanh(x)\nf(x)",
        "TracerArrayConversionError while tracing f",
    ),
    "no array as a result": ("def f(x):\n    return 'a'\nf(x)", "Nothing was computed with JAX"),
}


@pytest.mark.parametrize(("code", "says"), RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("verb", ["jaxpr", "compile"])
def test_what_runs_without_the_magic_runs(run, shell, verb, code, says):
    ran = run(f"%%{verb}\n{code}").well()
    said = re.sub(r"cell \d+", "cell 2", " ".join(ran.shown.split()))
    assert says in said
    assert shell.execution_count - 1 in shell.user_ns["Out"]


@pytest.mark.parametrize("verb", ["jaxpr", "compile"])
def test_a_leaked_tracer_in_the_function(run, verb):
    run("kept = []\n@jax.jit\ndef keeps(x):\n    kept.append(x * 2)\n    return x\nkeeps(x);")
    ran = run(f"%%{verb}\ndef uses(x):\n    return x + kept[0]\nuses(x)")
    assert type(ran.error).__name__ == "UnexpectedTracerError"
    assert "----> 4 uses(x)" in ran.out
    assert "jaxlens/" not in without_folders(ran.out)
    assert "cell 3:3: return x + kept[0]" in ran.shown
    ran = run(f"%%{verb}\nuses(kept[0])")
    assert type(ran.error).__name__ == "UnexpectedTracerError"
    assert run(f"%{verb} x + 1").ok


@pytest.mark.parametrize("last", ["x + 1", "f(x)", "y = f(x)"])
def test_an_error_of_ours_is_said_and_stops_nothing(run, monkeypatch, last):
    from jaxlens import api

    run("def f(x):\n    return x + 1")
    monkeypatch.delattr(api, "_check_fit")  # a fault in our own code
    ran = run(f"%%jaxpr --jit\n{last}").well()
    said = " ".join(ran.shown.split())
    assert "NameError: name '_check_fit' is not defined at jaxlens/api.py:" in said
    assert "a fault of jaxlens" in said


def test_somebody_elses_handler_goes_first(run, shell):
    seen = []

    def handler(shell, kind, error, trace, tb_offset=None):
        seen.append(kind)
        return []

    shell.set_custom_exc((ZeroDivisionError,), handler)
    try:
        run("%%jaxpr\n1 / 0\nx + 1")
    finally:
        shell.set_custom_exc((), None)
    assert seen == [ZeroDivisionError]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--vmap k(x, 3.0)", "its rank should be at least 1"),  # neither fits without --vmap
        ("--vmap k(x, x[0])", "must have ndim at least 1"),  # raised at the user's line
        ("--grad k(x > 0, x[0])", "grad requires real- or complex-valued inputs"),
    ],
)
def test_a_transform_that_does_not_fit_is_an_error_of_the_line(run, line, why):
    assert run(
        "import jax.numpy as jnp\nx = jnp.ones((2, 2))\ndef k(a, b): return (a @ b).sum()"
    ).ok
    ran = run(f"%jaxpr {line}")
    option, _, call = line.partition(" ")
    assert str(ran.error).startswith(f"{option} does not fit {call}: ")
    assert why in str(ran.error)
    assert "<jaxlens>" not in ran.out
    assert not ran.shown


def test_a_leaked_tracer(run, shell):
    run("%%jaxpr\nkept = []\ndef f(x):\n    kept.append(x * 2)\n    return x\nf(x)")
    ran = run("%%jaxpr\ny = 1\nz = kept[0] + 1\nf(x)")
    assert type(ran.error).__name__ == "UnexpectedTracerError"
    assert "----> 3 z = kept[0] + 1" in ran.out
    assert run("%jaxpr x + 1").ok


def test_the_debugger_sees_the_users_frames(run):
    import sys

    run("%%jaxpr\ndef f(x):\n    inside = 7\n    raise KeyError('mine')\nf(x)")
    trace = sys.last_traceback
    while trace.tb_next:
        trace = trace.tb_next
    assert trace.tb_frame.f_locals["inside"] == 7
