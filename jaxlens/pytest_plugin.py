"""The pytest plugin: the mark `compiles`, and receipts of programs beside the tests.

    @pytest.mark.compiles(1)
    def test_training(): ...

    def test_step(receipt):
        receipt(step, params, x)        # compared with __receipts__/test_model.json

pytest loads this file in every run where jaxlens is installed, so it imports nothing else of
jaxlens, and no JAX, before a test uses it. Each report of a test carries what its receipts were, so
that one process writes the files, whole: pytest's own, or xdist's controller.
"""

import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jaxlens.lenses.compare.receipt import Receipt

_FOLDER, _FORMAT = "__receipts__", 2  # of format 1, no record has a version
_ABOUT = "Receipts of jaxlens, rewritten by: pytest --jaxlens-update"
_OWN, _BOUNDARY = str(Path(__file__).parent), "<jaxlens>"  # files of frames above the user's
_MOST = 20  # lines below the results of a run
_UPDATE = "pytest --jaxlens-update"

# Of a test with receipts, what its last report carries, as plain data that xdist sends on: "file",
# "test", "records" by program, "taken" (the programs), "left_out" (`Changes.left_out`), "passed".
_MEASURED = pytest.StashKey[dict[str, Any]]()
_BUDGET = pytest.StashKey[dict[str, float]]()
_FILES = pytest.StashKey[dict[Path, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jaxlens", "programs of JAX")
    group.addoption(
        "--jaxlens-update",
        action="store_true",
        help=f"write the receipts of the tests that run, into {_FOLDER}/ beside them",
    )
    group.addoption(
        "--jaxlens-remove",
        action="store_true",
        help="remove the receipts of tests that are not collected, and those that a test ignores",
    )
    group.addoption(
        "--jaxlens-budget",
        default=None,
        metavar="BOUNDS",
        help="fail where a receipt is over a bound: peak=2GB,flops=1e9,kernels=12",
    )


def pytest_configure(config: pytest.Config) -> None:
    text = "compiles(n, operations=False): fails if the test compiles more than n programs of JAX"
    config.addinivalue_line("markers", text)
    config.stash[_FILES], config.stash[_BUDGET] = {}, {}
    if (text := config.getoption("jaxlens_budget")) is not None:
        from jaxlens.errors import OptionError
        from jaxlens.lenses.compare.bounds import split_bounds

        try:
            config.stash[_BUDGET] = split_bounds(text)
        except OptionError as error:
            raise pytest.UsageError(f"--jaxlens-budget: {error}") from None
    config.pluginmanager.register(_ReceiptFiles(config), "jaxlens-receipt-files")


# ---- marks ---------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    mark = item.get_closest_marker("compiles")
    with _limited(mark) if mark else nullcontext():
        return (yield)


@contextmanager
def _limited(mark: pytest.Mark) -> Iterator[None]:
    """Limits compiles by `jaxlens.assert_compiles`, which takes the mark's arguments."""
    from jaxlens.errors import OptionError, RecompileError
    from jaxlens.watches import assert_compiles

    try:
        limit = assert_compiles(*mark.args, **mark.kwargs)
    except (OptionError, TypeError) as error:
        text = f"write @pytest.mark.compiles(1), with a count: {error}"
        raise pytest.fail.Exception(text, pytrace=False) from None
    limit.__enter__()
    try:
        yield
    except BaseException:
        limit.__exit__(*sys.exc_info())
        raise
    try:
        limit.__exit__(None)
    except RecompileError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


# ---- receipts ------------------------------------------------------------------------------------


@pytest.fixture
def receipt(request: pytest.FixtureRequest) -> "Receipts":
    """Compares the program of a call with the receipt in a file beside the test."""
    return Receipts(request.node)


class Receipts:
    """The fixture `receipt`: called like `jaxlens.receipt`, it compares and returns a receipt.

    The first call is named after its function, a second of the same function "step 2". A test
    fails if the program is another than in the file, or if the file has none.

    Args:
        item: The test.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._names: dict[str, int] = {}
        item.stash[_MEASURED] = {
            "file": str(_file(item)),
            "test": _test(item),
            "records": {},
            "taken": [],
            "left_out": [],
            "passed": True,
        }

    def __call__(self, f: Any, /, *args: Any, **kwargs: Any) -> "Receipt":
        """Compiles a call, and compares it with its receipt; nothing is executed.

        Args:
            f: A function, or a Capture, such as one for a device that is not here.
            *args: Its arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
            **kwargs: Its keyword arguments.

        Raises:
            AssertionError: The program is another, over its budget, or has no receipt yet.
        """
        __tracebackhide__ = True
        return self._checked(f, args, kwargs, True)

    def traced(self, f: Any, /, *args: Any, **kwargs: Any) -> "Receipt":
        """Compares what tracing gives; compiles only where a budget bounds what a compile gives."""
        __tracebackhide__ = True
        return self._checked(f, args, kwargs, False)

    def _checked(
        self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compiled: bool
    ) -> "Receipt":
        __tracebackhide__ = True
        from jaxlens import receipt
        from jaxlens.errors import LensError

        try:
            found = receipt(f, *args, **kwargs)
            failure = self._failure(found, compiled)
        except LensError as error:
            raise error.with_traceback(None) from None
        except Exception as error:  # of the user's function, or of its call
            error.__traceback__ = _user_frames(error.__traceback__)
            raise
        if failure:
            raise AssertionError(failure)
        return found

    def _failure(self, found: "Receipt", compiled: bool) -> str:
        """Returns why a receipt fails; "" where it does not."""
        from jaxlens.lenses.compare.causes import title
        from jaxlens.lenses.compare.receipt_record import changes, is_whole, record

        path, test, config = _file(self._item), _test(self._item), self._item.config
        program = self._name(title(found.capture.program))
        measured = self._item.stash[_MEASURED]
        measured["taken"].append(program)
        kept = _read(path, config.stash[_FILES])["tests"].get(test, {}).get(program)
        earlier = kept if is_whole(kept) else None
        parts = [self._over(found)]
        folder = PurePosixPath(self._item.nodeid.partition("::")[0]).parent
        place = folder / _FOLDER / path.name
        if config.getoption("jaxlens_update"):
            measured["records"][program] = record(found, earlier, compiled=compiled)
        elif earlier is None:
            what = "receipt" if kept is None else "whole receipt"  # as a merge may leave it
            parts.append(f"{place} has no {what} of {program} in {test}; {_UPDATE} writes it")
        else:
            whole = config.get_verbosity() > 1
            differs = changes(earlier, found, compiled=compiled, whole=whole)
            measured["left_out"] += [
                f"{self._item.nodeid}, {program}: {why}" for why in differs.left_out
            ]
            if differs.lines:
                head = f"{program} differs from its receipt in {place}:"
                cut = not whole and any(" more" in line for line in differs.lines)
                tail = f"if it should be: {_UPDATE}{'; every line: pytest -vv' * cut}"
                parts.append("\n".join((head, *differs.lines, tail)))
        return "\n".join(filter(None, parts))

    def _name(self, name: str) -> str:
        """Returns a program's name in the file: "step", or "step 2" for a second one."""
        number = self._names[name] = self._names.get(name, 0) + 1
        return f"{name} {number}" if number > 1 else name

    def _over(self, found: "Receipt") -> str:
        """Returns what is over a bound of the command line."""
        try:
            found.within(**self._item.config.stash[_BUDGET])
        except AssertionError as error:
            return f"{error}\n  (--jaxlens-budget)"
        return ""


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the frames of the user's functions; all of them where jaxlens itself failed."""
    frames, link, file = trace, trace, ""
    while link is not None:
        file = link.tb_frame.f_code.co_filename
        if file == _BOUNDARY or file.startswith(_OWN):
            frames = link.tb_next
        link = link.tb_next
    return trace if file.startswith(_OWN) else frames


def _file(item: pytest.Item) -> Path:
    """Returns the file of a test's receipts; a doctest of a module has another than its tests."""
    name = item.path.stem if isinstance(item, pytest.Function) else item.path.name
    return item.path.parent / _FOLDER / f"{name}.json"


def _test(item: pytest.Item) -> str:
    """Returns a test's name in its file: "TestStep::test_small[f32]"."""
    nodes = (node for node in item.listchain() if isinstance(node, pytest.Class | pytest.Item))
    return "::".join(node.name for node in nodes)


def _read(path: Path, files: dict[Path, Any]) -> Any:
    """Returns the content of a file of receipts, read once; an empty one if there is none.

    Raises:
        CaptureFileError: It is no such file.
    """
    if path not in files:
        try:
            files[path] = json.loads(path.read_text("utf-8"))
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
                f"it, or delete it and run {_UPDATE}"
            ) from None
    return files[path]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if (measured := item.stash.get(_MEASURED, None)) is not None:
        measured["passed"] = measured["passed"] and report.passed
        if call.when == "teardown":  # of a fixture, which may take receipts too
            vars(report)["jaxlens"] = measured
    return report


class _ReceiptFiles:
    """Collects the receipts of all reports, writes the files, and says what fails no test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._update: bool = config.getoption("jaxlens_update")
        self._remove: bool = config.getoption("jaxlens_remove")
        self._files: dict[Path, Any] = {}
        self._collected: dict[Path, set[str]] = {}
        self._left_out: list[str] = []
        self._written: dict[Path, list[str]] = {}
        self._measured: list[dict[str, Any]] = []
        self._removable = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Notes the tests of each file, before any is deselected."""
        chosen = any("::" in str(arg) for arg in self._config.args)
        if chosen or self._config.getoption("lf", False) or self._config.option.collectonly:
            return
        for item in items:
            self._collected.setdefault(_file(item), set()).add(_test(item))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Notes the tests that a worker of xdist collected, where this process collects none."""
        for path, tests in getattr(node, "workeroutput", {}).get("jaxlens", {}).items():
            self._collected.setdefault(Path(path), set()).update(tests)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured += filter(None, [getattr(report, "jaxlens", None)])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput"):  # a worker of xdist, which writes nothing
            tests = {str(path): sorted(names) for path, names in self._collected.items()}
            vars(self._config)["workeroutput"]["jaxlens"] = tests
            return
        for measured in self._measured:
            self._left_out += measured["left_out"]
            self._merge(Path(measured["file"]), measured["test"], measured)
        for path in [*self._collected, *self._without_tests()]:
            tests = self._tests(path) if path.exists() else {}
            for test in sorted(tests.keys() - self._collected.get(path, set())):
                self._not_used(path, tests, test, test, "collected")
        for path, content in self._files.items() if self._update or self._remove else ():
            try:
                _write(path, content)
            except OSError as error:
                self._written.pop(path, None)
                self._left_out.append(f"{path} was not written: {error}")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _tests(self, path: Path) -> dict[str, Any]:
        """Returns the receipts of a file by test; {} if it holds none, and then says so once."""
        try:
            tests: dict[str, Any] = _read(path, self._files)["tests"]
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
            self._not_used(path, earlier, name, f"{test}, {name}", "taken")

    def _without_tests(self) -> list[Path]:
        """Returns the files of receipts, beside those of this run, whose file of tests is gone."""
        folders = {path.parent for path in self._collected if path.parent.exists()}
        return [
            path
            for folder in sorted(folders)
            for path in sorted(folder.glob("*.json"))
            if not any(path.stem in (file.name, file.stem) for file in folder.parent.iterdir())
        ]

    def _not_used(self, path: Path, entries: dict[str, Any], key: str, name: str, use: str) -> None:
        """Names a receipt that was not collected or not taken, and removes it if asked to."""
        place = os.path.relpath(path)
        if self._remove:
            del entries[key]
            self._left_out.append(f"{name} is removed from {place}: not {use}")
        else:
            self._removable += 1
            self._left_out.append(f"{name} is in {place}, and was not {use}")

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
        if self._removable:
            terminalreporter.line("  if no machine uses them any more: pytest --jaxlens-remove")


def _lines(terminalreporter: Any, lines: list[str]) -> None:
    most = _MOST if terminalreporter.verbosity < 2 else len(lines)
    for line in lines[:most]:
        terminalreporter.line(line)
    if len(lines) > most:
        terminalreporter.line(f"  and {len(lines) - most:,} more: pytest -vv")


def _write(path: Path, content: Any) -> None:
    """Writes a file of receipts whole, or not at all; one that is equal stays as it is."""
    content["tests"] = {test: records for test, records in content["tests"].items() if records}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if not content["tests"]:
        path.unlink(missing_ok=True)
        return
    if path.exists() and path.read_text("utf-8") == text:
        return
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, "utf-8")
    os.replace(part, path)
