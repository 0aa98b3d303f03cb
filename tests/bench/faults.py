"""Plants known faults, one at a time, and says whether the tests find them.

    .venv/3.11/bin/python tests/bench/faults.py                 every fault of faults.tsv
    .venv/3.11/bin/python tests/bench/faults.py fusion links    rows with one of these words

Each row of `faults.tsv` is a file, a text in it, what stands there instead, and the tests (a file,
or one test as pytest names it) that must fail then. They are planted in a copy of the tree, so that
the checkout stays as it is. Exit status 1: a fault was not found, or its text is gone.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("faults.tsv")
COPIED = ("jaxlens", "tests", "pyproject.toml", "README.md")


def rows(words):
    """Returns the rows with one of the words; all without words."""
    lines = TABLE.read_text("utf-8").splitlines()[1:]
    return [line.split("\t") for line in lines if not words or any(w in line for w in words)]


def copy(tree):
    """Copies what the tests read."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)


def write(path, text, at):
    """Writes a file with a time of its own, else Python may take the bytecode of before."""
    path.write_text(text, "utf-8")
    at[0] += 1
    os.utime(path, (at[0], at[0]))


def fails(tree, test):
    """Whether a test fails; what cannot be collected or chosen is an error of the table."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    env = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == 1


def main(words):
    missed, at = 0, [int(TABLE.stat().st_mtime)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy(tree)
        for file, before, after, test in rows(words):
            path = tree / file
            text = path.read_text("utf-8") if path.exists() else ""
            if text.count(before) != 1:
                said = f"stands {text.count(before)} times in the file"
            else:
                write(path, text.replace(before, after), at)
                said = "found" if fails(tree, test) else "NOT FOUND"
                write(path, text, at)
            missed += said != "found"
            print(f"{said}: {file}: {before} -> {after} ({test})", flush=True)
    print(f"{missed} not found" if missed else "all found")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
