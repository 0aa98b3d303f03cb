"""Folders of the repository, and the environment of processes that tests start."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
CAPTURES = sorted(RECORDS.glob("*.jaxlens"))
TEXTS = Path(__file__).with_name("texts")


def environment(**changes):
    """This process's variables, with a path on which `jaxlens` and `tests` are found."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **changes}


def python(*words, folder=None, without=(), timeout=None, **changes):
    """Runs Python with these words, with this process's variables but for those `without`."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=folder,
        env={k: v for k, v in environment(**changes).items() if k not in without},
    )


def run_python(code, *words, folder=None, **changes):
    """Runs code in a process of its own, which must end well; returns what it printed."""
    done = python("-W", "ignore", "-c", code, *words, folder=folder, timeout=500, **changes)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def without_folders(text):
    """A text in which neither the checkout nor the environment is called by its folder.

    A clone lies in a folder named `jaxlens`, and so do the files of its environment: only below
    the checkout is "jaxlens" the package.
    """
    for folder in (sys.prefix, sys.base_prefix, str(ROOT)):
        short = folder.replace(str(Path.home()), "~", 1)  # as IPython writes it
        text = text.replace(folder, "FOLDER").replace(short, "FOLDER")
    return text


def marked_line(source, mark="here"):
    """The number of the line, of a function or of a file, that ends in a comment of this word."""
    if isinstance(source, str):
        lines, start = Path(source).read_text().splitlines(), 1
    else:
        lines, start = inspect.getsourcelines(source)
    (line,) = (n for n, text in enumerate(lines, start) if text.rstrip().endswith(f"# {mark}"))
    return line
