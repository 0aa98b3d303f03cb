"""Runs one pytest in several processes: each takes the next file of tests when it is free.

It is a plugin of pytest too, which runs of what is collected the files that no other process has
taken: a file is taken by creating one of its name in a folder. No frame of it is below a test's:
JAX would name it as the user's.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent)
TAKEN = "JAXLENS_TAKEN"  # the variable that names the folder


def run(root: Path, python: Path, arguments: Sequence[str]) -> int:
    """Runs pytest in a process for each core and returns an exit status.

    The first process prints as it goes; the output of the others, and the CPU seconds of all,
    follow at the end.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        plugins = ["-p", "no:cacheprovider", "-p", "share"]
        command = [str(python), "-m", "pytest", *plugins, *arguments]
        paths = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": paths, TAKEN: folder}
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
        others = [
            pool.submit(subprocess.run, command, cwd=root, env=env, **quiet)
            for _ in range(1, os.cpu_count() or 1)
        ]
        statuses = [subprocess.run(command, cwd=root, env=env).returncode]
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

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        """Leaves an item of another process out; pytest runs the others as it would."""
        if self.takes(item.path):
            return None
        # What was set up for this item, as for its folder, is left as if it had run.
        item.session._setupstate.teardown_exact(nextitem)
        return True


def pytest_configure(config: Any) -> None:
    """Registers the share of this process; what a test starts knows nothing of it."""
    config.pluginmanager.register(Share(Path(os.environ.pop(TAKEN))))
    sys.path.remove(HERE)
    rest = os.environ["PYTHONPATH"].removeprefix(HERE).removeprefix(os.pathsep)
    os.environ["PYTHONPATH"] = rest
    if not rest:
        del os.environ["PYTHONPATH"]
