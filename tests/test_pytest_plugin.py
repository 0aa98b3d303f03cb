"""The pytest plugin, in runs of pytest of their own, on a small project of a team."""

import json
import os
from pathlib import Path

import jax
import pytest

import jaxlens
from jaxlens import pytest_plugin
from jaxlens.pytest_plugin.receipt_record import changes, record
from tests.support.paths import environment

pytest_plugins = ["pytester"]

MODEL = """
import jax
import jax.numpy as jnp


def loss(w, x):
    return jnp.tanh(x @ w).sum()


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)


def example(rows=8):
    return jnp.ones((4, 2)), jnp.ones((rows, 4))
"""
TESTS = """
import jax
import pytest
from model import example, loss, step


@pytest.mark.compiles(0)  # what a receipt compiles is not the test's
def test_step(receipt):
    found = receipt(step, *example())
    assert found.flops > 0
    receipt.traced(step, *example(16))


class TestLoss:
    @pytest.mark.parametrize("rows", [4])
    def test_grad(self, receipt, rows):
        receipt.traced(jax.grad(loss), *example(rows))
"""
MARKS = """
import pytest
from model import example, step


@pytest.mark.compiles(1)
def test_once():
    for _ in range(3):
        step(*example(5))


@pytest.mark.compiles(1)
def test_shapes():
    for rows in (5, 6, 7):
        step(*example(rows))


@pytest.mark.compiles(0)
def test_own_error():
    step(*example(9))
    raise ValueError("mine")


@pytest.mark.compiles
def test_no_count():
    pass
"""


@pytest.fixture(scope="module", autouse=True)
def _modules():
    """Loads what a receipt needs: a run in this process forgets the modules that it loads."""
    found = jaxlens.receipt(jax.jit(jax.grad(lambda x: x * x)), 1.0)
    changes(json.loads(json.dumps(record(found))), found)


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with a model and its tests; `run(*arguments)` runs pytest in it."""
    for name, value in environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", JAX_PLATFORMS="cpu").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    pytester.makepyfile(model=MODEL)
    return pytester


def run(project, *arguments, plugins=()):
    """Runs pytest in this process, which has imported JAX already."""
    return project.runpytest_inprocess(*arguments, plugins=(pytest_plugin, *plugins))


def run_apart(project, *arguments):
    """Runs pytest in a process of its own."""
    return project.runpytest_subprocess("-p", "jaxlens.pytest_plugin", *arguments)


def receipts(project):
    return Path(project.path, "__receipts__", "test_model.json")


def test_receipts_are_demanded_written_and_compared(project):
    project.makepyfile(test_model=TESTS)
    first = run(project)
    first.assert_outcomes(failed=2)
    first.stdout.fnmatch_lines(
        ["*has no receipt of step in test_step; pytest --jaxlens-update writes it"]
    )
    assert not receipts(project).exists()

    written = run_apart(project, "--jaxlens-update")
    written.assert_outcomes(passed=2)
    written.stdout.fnmatch_lines(
        ["3 of 3 written: __receipts__/test_model.json", "  test_step, step 2"], consecutive=False
    )
    text = receipts(project).read_text()
    content = json.loads(text)
    tests = content["tests"]
    assert {name: list(of) for name, of in tests.items()} == {
        "TestLoss::test_grad[4]": ["grad(loss)"],
        "test_step": ["step", "step 2"],
    }
    assert tests["TestLoss::test_grad[4]"]["grad(loss)"]["compiled"] == {}
    assert str(project.path) not in text

    project.makepyfile(model=MODEL.replace("tanh(x @ w).sum()", "tanh(x @ w * 3).sum()"))
    changed = run(project, "-k", "step", "--jaxlens-budget", "peak=10B")
    changed.assert_outcomes(failed=1, deselected=1)
    changed.stdout.fnmatch_lines(
        [
            ">*receipt(step, *example())",
            "E*step(w f32[[]4,2], x f32[[]8,4]) for cpu is too large:",
            "E*peak: * is over its budget of 10 B",
            "E*(--jaxlens-budget)",
            "E*step differs from its receipt in __receipts__/test_model.json:",
            "E*equations: *, was *",
            "E*by line:",
            "E*model.py:6: return jnp.tanh(x @ w * 3).sum()",
            "E*was: return jnp.tanh(x @ w).sum()",
            "E*new mul f32 x 2",
            "E*if it should be: pytest --jaxlens-update",
        ]
    )
    assert "pytest_plugin/" not in changed.stdout.str()
    assert receipts(project).read_text() == text
    many = "".join(f"    x = x * {n}\n" for n in range(2, 26))
    project.makepyfile(model=MODEL.replace("    return jnp.tanh", f"{many}    return jnp.tanh"))
    cut, whole = run(project, "-k", "grad"), run(project, "-k", "grad", "-vv")
    cut.stdout.fnmatch_lines(
        ["E*and * more lines", "E*if it should be: pytest --jaxlens-update; every line: pytest -vv"]
    )
    assert " more lines" not in whole.stdout.str()
    whole.stdout.fnmatch_lines(["E*model.py:29: x = x [*] 25", "E*pytest --jaxlens-update"])

    # From here on the file is one that came from elsewhere, and a comment moves every line.
    project.makepyfile(model=MODEL.replace("\n\ndef loss", "\n\n# moved\n\ndef loss"))
    tests["test_gone"] = tests["test_step"]
    section = tests["test_step"]["step"]["compiled"]["cpu"]
    section |= {"made_by": "jaxlib 0.1 on a laptop", "fusions": 77}
    receipts(project).write_text(json.dumps(content))
    shown = run(project)
    shown.assert_outcomes(passed=2)
    shown.stdout.fnmatch_lines(
        [
            "of 3 receipts:",
            "  test_model.py::test_step, step: its compiled figures are of jaxlib 0.1 *, was 77",
        ]
    )
    updated = run(project, "--jaxlens-update", "-k", "grad")
    updated.assert_outcomes(passed=1, deselected=1)
    updated.stdout.fnmatch_lines(["0 of 1 written"])
    kept = json.loads(receipts(project).read_text())["tests"]
    assert kept.keys() == {"TestLoss::test_grad[4]", "test_step", "test_gone"}
    assert kept["test_step"]["step"]["compiled"]["cpu"]["fusions"] == 77


def test_marks(project):
    project.makepyfile(test_marks=MARKS)
    done = run(project, "-rf")
    done.assert_outcomes(passed=1, failed=3)
    done.stdout.fnmatch_lines(
        [
            "expected at most 1 compile, got 2: step at *f32[[]7,4], was f32[[]6,4]*",
            "E*ValueError: mine",
            "write @pytest.mark.compiles(1), with a count: *",
        ],
        consecutive=False,
    )
    assert "pytest_plugin/" not in done.stdout.str()


def test_a_bound_in_a_test_fails_at_the_test(project):
    text = "from model import *\ndef test_bound(receipt): receipt(step, *example()).within(flops=1)"
    project.makepyfile(test_bound=text)
    done = run(project, "test_bound.py", "--jaxlens-update")
    done.stdout.fnmatch_lines(["E*flops: * is over its budget of 1 flop"])
    done.stdout.no_fnmatch_line("*read_bounds*")


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ("", "a budget is written peak=2GB,*, got ''"),
        ("peek=1", "no figure 'peek' to bound; did you mean 'peak'?"),
    ],
)
def test_a_wrong_budget_is_said_before_any_test(project, budget, says):
    done = run(project, f"--jaxlens-budget={budget}")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*--jaxlens-budget: {says}"])


def test_a_run_without_receipts_imports_neither_jax_nor_the_verbs(project):
    project.makepyfile(
        """
        import sys

        def test_plain():
            names = {name for name in sys.modules if name.split(".")[0] in ("jaxlens", "jax")}
            plugin = (".pytest_plugin", ".pytest_plugin.files", ".pytest_plugin.fixture")
            own = ("", *plugin, ".reading")
            assert names == {f"jaxlens{name}" for name in own}
            assert "numpy" not in sys.modules
        """
    )
    run_apart(project).assert_outcomes(passed=1)


def test_workers_of_xdist_write_one_file(project):
    pytest.importorskip("xdist")
    project.makepyfile(test_model=TESTS)
    names = {"TestLoss::test_grad[4]", "test_step"}
    done = run_apart(project, "-p", "xdist", "-n", "2", "--jaxlens-update")
    done.assert_outcomes(passed=2)
    assert json.loads(receipts(project).read_text())["tests"].keys() == names
    assert "3 of 3 written" in done.stdout.str()


UNUSED = """
import os

import jax
import pytest
from model import example, loss, step

LATER = "LATER" in os.environ


def test_fewer(receipt):
    receipt.traced(step, *example())
    if not LATER:
        receipt.traced(loss, *example())


def test_wrong_call(receipt):
    receipt.traced(step, *example(), *([2] if LATER else []))


@pytest.fixture
def late(receipt):
    yield
    receipt.traced(loss, *example())


def test_late(late):
    pass
"""


def test_what_a_test_does_not_take_is_named(project, monkeypatch):
    project.makepyfile(test_model=UNUSED)
    run(project, "--jaxlens-update").assert_outcomes(passed=3)
    run(project).assert_outcomes(passed=3)  # also what a fixture takes at its end
    monkeypatch.setenv("LATER", "1")
    shown = run(project)
    shown.assert_outcomes(passed=2, failed=1)
    shown.stdout.fnmatch_lines(
        [
            ">*receipt.traced(step, *example(), *([[]2] if LATER else [[]]))",
            "E*TypeError: step() takes 2 positional arguments but 3 were given",
            "*test_fewer, loss is in __receipts__/test_model.json, and was not taken",
        ]
    )
    assert "jaxlens/stages" not in shown.stdout.str()


def test_an_update_that_cannot_be_written_fails(project, monkeypatch):
    project.makepyfile(test_model=TESTS)

    def full(*paths):
        raise OSError("No space left on device")

    class FullDisk:
        def pytest_sessionfinish(self):
            monkeypatch.setattr(os, "replace", full)

    done = run(project, "--jaxlens-update", plugins=[FullDisk()])
    monkeypatch.undo()
    done.assert_outcomes(passed=2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["0 of 3 written", "*test_model.json was not written: *"])


def test_a_doctest_and_a_function_of_one_name_have_receipts_of_their_own(project):
    text = """
    >>> import jax
    >>> _ = getfixture("receipt").traced(jax.jit(lambda x: x * 2), 1.0)
    """
    tests = (
        f"{text!r}\nimport jax\ndef test_d(receipt): receipt.traced(jax.jit(lambda x: x - 2), 1.0)"
    )
    project.makepyfile(test_d=tests)
    project.maketxtfile(test_d=text)
    run(project, "--doctest-modules", "--jaxlens-update").assert_outcomes(passed=3)
    run(project, "--doctest-modules").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    "content", ['{"format": 1, "tests": []}', '{"format": 1}', "[]", "<<<<<<< ours\n"]
)
def test_a_file_of_another_form_is_named(project, content):
    project.makepyfile(test_model=TESTS)
    receipts(project).parent.mkdir()
    receipts(project).write_text(content)
    shown = run(project, "-k", "grad")
    shown.assert_outcomes(failed=1, deselected=1)
    shown.stdout.fnmatch_lines(["E*CaptureFileError: *test_model.json holds no receipts*"])
    assert "pytest_plugin/" not in shown.stdout.str()


def test_a_receipt_that_lacks_a_key_is_asked_for(project):
    project.makepyfile(test_model=TESTS)
    run(project, "--jaxlens-update").assert_outcomes(passed=2)
    content = json.loads(receipts(project).read_text())
    del content["tests"]["test_step"]["step"]["compiled"]
    receipts(project).write_text(json.dumps(content))
    shown = run(project, "-k", "step")
    shown.assert_outcomes(failed=1, deselected=1)
    shown.stdout.fnmatch_lines(["E*has no whole receipt of step in test_step; pytest --jaxlens*"])
