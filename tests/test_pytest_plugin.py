"""The pytest plugin, in runs of pytest of their own, on a small project of a team."""

import json
from pathlib import Path

import pytest

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


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with a model and its tests; `run(*arguments)` runs pytest in it."""
    for name, value in environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", JAX_PLATFORMS="cpu").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    pytester.makepyfile(model=MODEL)
    return pytester


def run(project, *arguments):
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

    written = run(project, "--jaxlens-update")
    written.assert_outcomes(passed=2)
    written.stdout.fnmatch_lines(["3 written: __receipts__/test_model.json"])
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
    assert "pytest_plugin.py" not in changed.stdout.str()
    assert receipts(project).read_text() == text

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
            "*test_step, step: its compiled figures are of jaxlib 0.1 on a laptop, *, was 77",
            "*test_gone is in test_model.json, and was not collected",
        ]
    )
    run(project, "--jaxlens-update", "-k", "grad").assert_outcomes(passed=1, deselected=1)
    kept = json.loads(receipts(project).read_text())["tests"]
    assert kept.keys() == {"TestLoss::test_grad[4]", "test_step"}
    assert kept["test_step"]["step"]["compiled"]["cpu"]["fusions"] == 77

    receipts(project).write_text("<<<<<<< ours\n")
    broken = run(project, "-k", "grad")
    broken.assert_outcomes(failed=1, deselected=1)
    broken.stdout.fnmatch_lines(["E*CaptureFileError: *test_model.json holds no receipts*"])
    assert "pytest_plugin.py" not in broken.stdout.str()


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
    assert "pytest_plugin.py" not in done.stdout.str()


def test_a_wrong_budget_is_said_before_any_test(project):
    done = run(project, "--jaxlens-budget", "peek=1")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        ["*--jaxlens-budget: no figure 'peek' to bound; did you mean 'peak'?"]
    )


def test_a_run_without_receipts_imports_neither_jax_nor_the_verbs(project):
    project.makepyfile(
        """
        import sys

        def test_plain():
            names = {name for name in sys.modules if name.split(".")[0] in ("jaxlens", "jax")}
            assert names == {"jaxlens", "jaxlens.pytest_plugin"}
            assert "numpy" not in sys.modules
        """
    )
    run(project).assert_outcomes(passed=1)


def test_workers_of_xdist_write_one_file(project):
    pytest.importorskip("xdist")
    project.makepyfile(test_model=TESTS)
    done = run(project, "-p", "xdist", "-n", "2", "--jaxlens-update")
    done.assert_outcomes(passed=2)
    assert json.loads(receipts(project).read_text())["tests"].keys() == {
        "TestLoss::test_grad[4]",
        "test_step",
    }


@pytest.mark.parametrize("content", ['{"format": 1, "tests": []}', '{"format": 1}', "[]"])
def test_a_file_of_another_form_is_named(project, content):
    project.makepyfile(test_model=TESTS)
    receipts(project).parent.mkdir()
    receipts(project).write_text(content)
    shown = run(project, "-k", "grad")
    shown.assert_outcomes(failed=1, deselected=1)
    assert "holds no receipts" in shown.stdout.str()
