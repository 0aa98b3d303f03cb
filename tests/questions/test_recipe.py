"""A question is a folder: the recipe of the map, followed to the letter, adds one."""

import re
import shutil
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules

from jaxlens import questions
from tests.support.paths import ROOT, python

MAP = (ROOT / "jaxlens" / "README.md").read_text()
RECIPE = MAP.partition("## To add a question")[2].partition("\n## ")[0]
FACTS, ROW = re.findall(r"```python\n(.*?)```", RECIPE, re.DOTALL)
ASKED = """
from IPython.testing.globalipapp import start_ipython

shell = start_ipython()
shell.run_line_magic("load_ext", "jaxlens")
shell.run_cell("import jax.numpy as jnp; x, w = jnp.ones((8, 4)), jnp.ones((4, 100))")
shell.run_line_magic("compile", "-hh")
print(shell.run_line_magic("compile", "--widest jnp.tanh(x @ w)"))
"""


def written(folder: Path, package: str) -> None:
    """Follows the recipe in a folder; `package` is what it is imported as."""
    folder.mkdir(parents=True)
    files = {"__init__.py": '"""The largest value."""\n', "facts.py": FACTS, "row.py": ROW}
    for name, text in files.items():
        (folder / name).write_text(text.replace("jaxlens.questions.widest", package))


def asked(path: Path) -> str:
    """Returns what `%compile --widest` shows where `path` is the first to import from."""
    done = python("-c", ASKED, folder=path, PYTHONPATH=str(path))
    assert done.returncode == 0, done.stderr
    assert "the largest value of the optimised program" in done.stdout  # its help
    return done.stdout


def test_the_recipe_followed_to_the_letter_adds_a_question(tmp_path) -> None:
    left = shutil.ignore_patterns("static")
    shutil.copytree(ROOT / "jaxlens", tmp_path / "jaxlens", ignore=left)
    (tmp_path / "jaxlens" / "render" / "static").symlink_to(ROOT / "jaxlens" / "render" / "static")
    written(tmp_path / "jaxlens" / "questions" / "widest", "jaxlens.questions.widest")
    (tmp_path / "tests").mkdir()
    for path in (ROOT / "tests").glob("*/"):
        (tmp_path / "tests" / path.name).symlink_to(path)
    shutil.copy(ROOT / "tests" / "test_architecture.py", tmp_path / "tests")
    words = "-m pytest -q -p no:cacheprovider tests/test_architecture.py".split()
    done = python(*words, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "The largest value is that of " in asked(tmp_path)


def test_a_package_of_three_files_adds_a_question(tmp_path) -> None:
    written(tmp_path / "widest", "widest")
    info = tmp_path / "widest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: widest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jaxlens.questions]\nwidest = widest.row\n")
    assert "The largest value is that of " in asked(tmp_path)


def test_the_map_draws_what_the_rows_say_they_use() -> None:
    drawn = MAP.partition("flowchart LR\n    compare")[2].partition("```")[0]
    written_rows = f"    compare{drawn}"
    names = [folder.name for folder in iter_modules(questions.__path__)]
    rows = {name: import_module(f"jaxlens.questions.{name}.row") for name in names}
    used = {name: getattr(row, "USES", ()) for name, row in rows.items()}
    assert written_rows == "".join(
        f"    {name} --> {' & '.join(others)}\n" for name, others in used.items() if others
    )


def test_what_is_written_from_rows_is_that_of_the_rows() -> None:
    """`python3 .dev index` writes it."""
    spec = spec_from_file_location("index", ROOT / ".dev" / "index.py")
    index = module_from_spec(spec)
    spec.loader.exec_module(index)
    text = (ROOT / "jaxlens" / "__init__.py").read_text()
    assert index.package(text, questions.rows()) == text
    assert index.table(questions.rows()) in (ROOT / "README.md").read_text()


def test_a_row_can_stand_in_the_panel() -> None:
    places = [row.panel for row in questions.rows() if row.panel]
    assert sorted(set(places)) == sorted(places)
