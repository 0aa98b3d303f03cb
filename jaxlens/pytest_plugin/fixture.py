"""The fixture `receipt`: compares a program with what the file beside its test has."""

from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from jaxlens.pytest_plugin.files import FOLDER, UPDATE, file_of, read, test_of

if TYPE_CHECKING:
    from jaxlens.questions.compare.verbs import Receipt

# Of a test with receipts, what its last report carries, as plain data that xdist sends on: "file",
# "test", "records" by program, "taken" (the programs), "left_out" (`Changes.left_out`), "passed".
MEASURED = pytest.StashKey[dict[str, Any]]()
BUDGET = pytest.StashKey[dict[str, float]]()
FILES = pytest.StashKey[dict[Path, Any]]()


class Receipts:
    """The fixture `receipt`: called like `jaxlens.receipt`, it compares and returns a receipt.

    The first call is named after its function, a second of the same function "step 2". A test
    fails if the program is another than in the file, or if the file has none.

    Args:
        item: The test.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item, self._file, self._test = item, file_of(item), test_of(item)
        self._measured: dict[str, Any] = {"file": str(self._file), "test": self._test}
        self._measured |= {"records": {}, "taken": [], "left_out": []}
        item.stash[MEASURED] = self._measured

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
        from jaxlens.tracebacks import user_frames

        try:
            result = receipt(f, *args, **kwargs)
            failure = self._failure(result, compiled)
        except LensError as error:
            raise error.with_traceback(None) from None
        except Exception as error:  # of the user's function, or of its call
            error.__traceback__ = user_frames(error.__traceback__)
            raise
        if failure:
            raise AssertionError(failure)
        return result

    def _failure(self, receipt: "Receipt", compiled: bool) -> str:
        """Returns why a receipt fails; "" where it does not."""
        from jaxlens.pytest_plugin.receipt_record import changes, is_whole, record

        config, id, measured = self._item.config, self._item.nodeid, self._measured
        name = receipt.capture.program.title
        names = chain([name], (f"{name} {n}" for n in count(2)))
        program = next(name for name in names if name not in measured["taken"])
        measured["taken"].append(program)
        tests = read(self._file, config.stash[FILES])["tests"]
        kept = tests.get(self._test, {}).get(program)
        earlier = kept if is_whole(kept) else None
        parts = [self._over(receipt)]
        place = PurePosixPath(id.partition("::")[0]).parent / FOLDER / self._file.name
        if config.getoption("jaxlens_update"):
            measured["records"][program] = record(receipt, earlier, compiled=compiled)
        elif earlier is None:
            what = "receipt" if kept is None else "whole receipt"  # as a merge may leave it
            parts.append(f"{place} has no {what} of {program} in {self._test}; {UPDATE} writes it")
        else:
            whole = config.get_verbosity() > 1
            differs = changes(earlier, receipt, compiled=compiled, whole=whole)
            measured["left_out"] += [f"{id}, {program}: {why}" for why in differs.left_out]
            if differs.lines:
                head = f"{program} differs from its receipt in {place}:"
                cut = not whole and any(" more" in line for line in differs.lines)
                tail = f"if it should be: {UPDATE}{'; every line: pytest -vv' * cut}"
                parts.append("\n".join((head, *differs.lines, tail)))
        return "\n".join(filter(None, parts))

    def _over(self, receipt: "Receipt") -> str:
        """Returns what is over a bound of the command line."""
        try:
            receipt.within(**self._item.config.stash[BUDGET])
        except AssertionError as error:
            return f"{error}\n  (--jaxlens-budget)"
        return ""
