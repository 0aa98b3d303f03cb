"""The pytest plugin: the mark `compiles`, and receipts of programs beside the tests.

    @pytest.mark.compiles(1)
    def test_training(): ...

    def test_step(receipt):
        receipt(step, params, x)        # compared with __receipts__/test_model.json

pytest loads this folder in every run where jaxlens is installed, so it imports nothing else of
jaxlens, and no JAX, before a test uses it.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from jaxlens.pytest_plugin.files import FOLDER, ReceiptFiles
from jaxlens.pytest_plugin.fixture import BUDGET, FILES, MEASURED, Receipts


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jaxlens", "programs of JAX")
    update = f"write the receipts of the tests that run, into {FOLDER}/ beside them"
    group.addoption("--jaxlens-update", action="store_true", help=update)
    group.addoption(
        "--jaxlens-budget",
        default=None,
        metavar="BOUNDS",
        help="fail where a receipt is over a bound: peak=2GB,flops=1e9,kernels=12",
    )


def pytest_configure(config: pytest.Config) -> None:
    text = "compiles(n, operations=False): fails if the test compiles more than n programs of JAX"
    config.addinivalue_line("markers", text)
    config.stash[FILES], config.stash[BUDGET] = {}, {}
    if (text := config.getoption("jaxlens_budget")) is not None:
        from jaxlens.errors import OptionError
        from jaxlens.program.figures import split_bounds

        try:
            config.stash[BUDGET] = split_bounds(text)
        except OptionError as error:
            raise pytest.UsageError(f"--jaxlens-budget: {error}") from None
    config.pluginmanager.register(ReceiptFiles(config), "jaxlens-receipt-files")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    mark = item.get_closest_marker("compiles")
    with _limited(mark) if mark else nullcontext():
        return (yield)


@contextmanager
def _limited(mark: pytest.Mark) -> Iterator[None]:
    """Limits compiles by `jaxlens.assert_compiles`, which takes the mark's arguments."""
    from jaxlens.errors import OptionError, RecompileError
    from jaxlens.questions.recompiles.verbs import assert_compiles

    try:
        limit = assert_compiles(*mark.args, **mark.kwargs)
    except (OptionError, TypeError) as error:
        text = f"write @pytest.mark.compiles(1), with a count: {error}"
        raise pytest.fail.Exception(text, pytrace=False) from None
    ended = False
    try:
        with limit:
            yield
            ended = True
    except RecompileError as error:
        if not ended:  # of a limit within the test
            raise
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def receipt(request: pytest.FixtureRequest) -> Receipts:
    """Compares the program of a call with the receipt in a file beside the test."""
    return Receipts(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if (measured := item.stash.get(MEASURED, None)) is not None:
        measured["passed"] = measured.get("passed", True) and report.passed
        if call.when == "teardown":  # of a fixture, which may take receipts too
            vars(report)["jaxlens"] = measured
    return report
