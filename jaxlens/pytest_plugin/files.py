"""The files of receipts: who reads and writes them, and what is said of them after a run.

Each report of a test carries what its receipts were, so that one process writes the files, whole:
pytest's own, or xdist's controller.
"""

import json
import os
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from jaxlens.reading import read_json

FOLDER, _FORMAT = "__receipts__", 2  # of format 1, no record has a version
_ABOUT = "Receipts of jaxlens, rewritten by: pytest --jaxlens-update"
_MOST = 20  # lines below the results of a run
UPDATE = "pytest --jaxlens-update"


def file_of(item: pytest.Item) -> Path:
    """Returns the file of a test's receipts; a doctest of a module has another than its tests."""
    name = item.path.stem if isinstance(item, pytest.Function) else item.path.name
    return item.path.parent / FOLDER / f"{name}.json"


def test_of(item: pytest.Item) -> str:
    """Returns a test's name in its file: "TestStep::test_small[f32]"."""
    nodes = (node for node in item.listchain() if isinstance(node, pytest.Class | pytest.Item))
    return "::".join(node.name for node in nodes)


def read(path: Path, files: dict[Path, Any]) -> Any:
    """Returns the content of a file of receipts, read once; an empty one if there is none.

    Raises:
        CaptureFileError: It is no such file.
    """
    if path not in files:
        try:
            files[path] = read_json(path)
            if files[path]["format"] not in (1, _FORMAT):
                raise ValueError(f"it has format {files[path]['format']}, and not 1 or {_FORMAT}")
            tests = files[path]["tests"]
            if not all(isinstance(part, dict) for part in (tests, *tests.values())):
                raise ValueError("its tests are no table")
        except FileNotFoundError:
            files[path] = {"//": _ABOUT, "format": _FORMAT, "tests": {}}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            files.pop(path, None)
            from jaxlens.errors import CaptureFileError

            raise CaptureFileError(
                f"{path} holds no receipts ({type(error).__name__}: {error}): resolve a merge in "
                f"it, or delete it and run {UPDATE}"
            ) from None
    return files[path]


class ReceiptFiles:
    """Collects the receipts of all reports, writes the files, and says what fails no test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._update: bool = config.getoption("jaxlens_update")
        self._files: dict[Path, Any] = {}
        self._left_out: list[str] = []
        self._written: dict[Path, list[str]] = {}
        self._measured: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured += filter(None, [getattr(report, "jaxlens", None)])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput"):  # a worker of xdist, which writes nothing
            return
        for measured in self._measured:
            self._left_out += measured["left_out"]
            self._merge(Path(measured["file"]), measured["test"], measured)
        for path in [*self._written]:
            try:
                _write(path, self._files[path])
            except OSError as error:
                self._written.pop(path, None)
                self._left_out.append(f"{path} was not written: {error}")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _tests(self, path: Path) -> dict[str, Any]:
        """Returns the receipts of a file by test; {} if it holds none, and then says so once."""
        try:
            tests: dict[str, Any] = read(path, self._files)["tests"]
        except Exception as error:  # a test that needs the file has failed with the same words
            self._left_out += {str(error)} - {*self._left_out}
            return {}
        return tests

    def _merge(self, path: Path, test: str, measured: dict[str, Any]) -> None:
        """Adds the records of a test to those of its file, and looks for one that it ignores."""
        tests = self._tests(path)
        earlier = tests.get(test, {})
        changed = [name for name, new in measured["records"].items() if new != earlier.get(name)]
        if changed:
            self._files[path]["format"] = _FORMAT
            tests[test] = earlier = {**earlier, **measured["records"]}
            self._written.setdefault(path, []).extend(f"  {test}, {name}" for name in changed)
        for name in sorted(earlier.keys() - measured["taken"]) if measured["passed"] else ():
            self._left_out.append(
                f"{test}, {name} is in {os.path.relpath(path)}, and was not taken"
            )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        receipts = sum(len(measured["taken"]) for measured in self._measured)
        if self._left_out or (self._update and receipts):
            terminalreporter.section("receipts of jaxlens")
        if self._update and receipts:
            changed = [*chain.from_iterable(self._written.values())]
            files = ", ".join(sorted(map(os.path.relpath, self._written)))
            text = f"{len(changed)} of {receipts} written"
            terminalreporter.line(f"{text}: {files}" if files else text)
            _lines(terminalreporter, changed)
        if self._left_out:
            terminalreporter.line(f"of {receipts} receipts:")
            _lines(terminalreporter, [f"  {text}" for text in self._left_out])


def _lines(terminalreporter: Any, lines: list[str]) -> None:
    most = _MOST if terminalreporter.verbosity < 2 else len(lines)
    for line in lines[:most]:
        terminalreporter.line(line)
    if len(lines) > most:
        terminalreporter.line(f"  and {len(lines) - most:,} more: pytest -vv")


def _write(path: Path, content: Any) -> None:
    """Writes a file of receipts whole, or not at all."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, "utf-8")
    os.replace(part, path)
