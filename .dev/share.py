"""Runs one pytest in several processes: each takes the next file of tests when it is free.

    python .dev/share.py FOLDER [ARGS]

runs pytest, and of what it collects the files that no other process with the same folder has
taken: a file is taken by creating one of its name there.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


def run(root: Path, python: Path, arguments: Sequence[str]) -> int:
    """Runs pytest in a process for each core and returns an exit status.

    The first process prints as it goes; the output of the others, and the CPU seconds of all,
    follow at the end.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        command = [str(python), __file__, folder, "-p", "no:cacheprovider", *arguments]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
        others = [
            pool.submit(subprocess.run, command, cwd=root, **quiet)
            for _ in range(1, os.cpu_count() or 1)
        ]
        statuses = [subprocess.run(command, cwd=root).returncode]
        for other in others:
            print(other.result().stdout, flush=True)
            statuses.append(other.result().returncode)
    used = os.times()
    spent = round(used.children_user + used.children_system)
    print(f"jaxlens: {spent} CPU seconds in {len(statuses)} processes", file=sys.stderr)
    return next((status for status in statuses if status not in (0, 5)), 0)  # 5: none chosen


class Share:
    """A plugin of pytest: runs the files of tests that no other process has taken.

    Attributes:
        folder: Holds a file for each file of tests that is taken.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ours: dict[Path, bool] = {}

    def takes(self, path: Path) -> bool:
        """Whether this process runs a file of tests, and is the first to ask for it."""
        if path not in self._ours:
            try:
                (self.folder / hashlib.sha256(str(path).encode()).hexdigest()).touch(exist_ok=False)
                self._ours[path] = True
            except FileExistsError:
                self._ours[path] = False
        return self._ours[path]

    def pytest_collection_modifyitems(self, items: Sequence) -> None:
        for item in items:
            if item.path.suffix == ".ipynb":  # a lesson shows what JAX and XLA write
                item.add_marker("reads_jax")

    def pytest_runtestloop(self, session: Any) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        items: Iterator = (item for item in session.items if self.takes(item.path))
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True


if __name__ == "__main__":
    import pytest

    sys.path[0] = os.getcwd()  # as `python -m pytest` has it: nothing here hides a module of tests
    sys.exit(pytest.main(sys.argv[2:], plugins=[Share(Path(sys.argv[1]))]))
