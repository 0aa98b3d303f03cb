"""Passes the tests of what is changed: the packages changed, and those that import them.

A change is what is not committed, or else the last commit. The tests of a package are those of the
folder in tests/ with its name, and every test that imports a module of it that is changed; of a
room that shows a question that is changed, those that name the question. Without a browser and the
libraries of models. What is left out is said.
"""

import ast
import subprocess
import sys
from pathlib import Path

LEFT_OUT = ("browser", "models")
ALWAYS = ("tests/test_architecture.py", "tests/questions/test_recipe.py")


def changed(root: Path) -> set[str]:
    """The files that are changed, relative to the root."""

    def git(*words: str) -> set[str]:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines())

    now = git("diff", "--name-only", "HEAD") | git("ls-files", "--others", "--exclude-standard")
    return now or git("diff", "--name-only", "HEAD~1", "HEAD")


def module(path: str) -> str:
    """The module of a file; a file of data belongs to the package of its folder."""
    name = path.removesuffix(".py") if path.endswith(".py") else str(Path(path).parent)
    return name.removesuffix("/__init__").replace("/", ".")


def imports(path: Path) -> set[str]:
    """The names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def package(name: str) -> str:
    """The folder of tests of a module: "questions/nan", "render", "core"."""
    parts = name.split(".")[1:]
    return "/".join(parts[: 2 if parts[:1] == ["questions"] else 1])


def chosen(root: Path, files: set[str]) -> list[str]:
    """The files of tests to pass for a change."""
    ours = {path: imports(path) for path in (root / "jaxlens").rglob("*.py")}
    tests = {path: imports(path) for path in (root / "tests").rglob("test_*.py")}
    new = {module(path) for path in files if path.startswith("jaxlens/")}

    def takes(names: set[str]) -> bool:
        return any(f"{name}.".startswith(f"{other}.") for name in names for other in new)

    users = {module(str(path.relative_to(root))) for path, names in ours.items() if takes(names)}
    own = {package(name) for name in new | users if package(name)}
    questions = {name for name in own if name.startswith("questions/")}
    rooms = own - questions if {package(name) for name in new} <= questions else set()
    asked = {name.removeprefix("questions/") for name in questions}
    paths = {str(path.relative_to(root)): names for path, names in tests.items()}
    kept = {path for path, names in paths.items() if path in files or takes(names)}
    kept |= {path for path in paths if _within(path, own - rooms)}
    for path in paths:
        if _within(path, rooms) and any(name in (root / path).read_text() for name in asked):
            kept.add(path)
    return sorted(kept | set(ALWAYS))


def _within(path: str, packages: set[str]) -> bool:
    return any(path.startswith(f"tests/{package}/") for package in packages)


def run(root: Path, python: Path) -> int:
    """Passes the tests of a change in two processes, and returns an exit status."""
    files = changed(root)
    paths = chosen(root, files)
    every = sum(1 for _ in (root / "tests").rglob("test_*.py"))
    kinds = " and ".join(f"not {kind}" for kind in LEFT_OUT)
    halves = [half for half in (paths[::2], paths[1::2]) if half]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", kinds]
    runs = [subprocess.Popen([*command, *half], cwd=root) for half in halves]
    failed = [done for process in runs if (done := process.wait()) not in (0, 5)]  # 5: none left
    print(
        f"jaxlens: {len(paths)} of {every} files of tests, for {len(files)} changed; left out: the "
        f"others, the lessons, what needs {' or '.join(LEFT_OUT)}. All of it: python3 .dev test",
        file=sys.stderr,
    )
    return max(failed, default=0)
