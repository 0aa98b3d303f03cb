"""The scratch notebook of `python3 .dev try`: a cell runs with the code as it was last saved."""

import json
import os
import runpy
import shutil
from pathlib import Path

import pytest

import jaxlens
from tests.support.paths import ROOT, run_python

DEV = ROOT / ".dev"
pytestmark = [
    pytest.mark.notebook,
    pytest.mark.backend,
    pytest.mark.skipif(not DEV.exists(), reason="only a checkout has the command"),
]

# Runs all cells, then appends a text to some files and runs the cell of `%%jaxpr` again.
RUNS = """
import json, sys
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

cells, edits = json.loads(sys.argv[1]), json.loads(sys.argv[2])
shell = InteractiveShell.instance(colors="nocolor")

def run(cell):
    with capture_output() as out:
        ran = shell.run_cell(cell, store_history=True)
    assert ran.success, out.stdout + out.stderr
    shown = [data for o in out.outputs for kind, data in o.data.items() if kind.startswith("text")]
    return "\\n".join([out.stdout, *shown])

(again,) = (cell for cell in cells if cell.startswith("%%jaxpr"))
seen = [run(cell) for cell in cells if cell != again]
seen = [run(again), run(again)]
for paths, text in edits:
    for path in paths:
        with open(path, "a") as file:
            file.write(text)
    seen.append(run(again))
print("@@" + json.dumps(seen))
"""
FUNCTION = """
before = header_line
def header_line(*args, **kwargs):
    return "EDITED " + before(*args, **kwargs)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The output of one cell: twice, after an edit of a function, and after one of the styles."""
    folder = tmp_path_factory.mktemp("try")
    package = shutil.copytree(Path(jaxlens.__file__).parent, folder / "jaxlens")
    styles = [str(path) for path in package.rglob("*.css")]
    edits = [([str(package / "views/header.py")], FUNCTION), (styles, ".edited { color: red }\n")]
    cells = runpy.run_path(str(DEV))["SCRATCH"]
    paths = os.pathsep.join([str(folder), str(DEV)])
    told = [json.dumps(cells), json.dumps(edits)]
    own = {"PYTHONPATH": paths, "IPYTHONDIR": str(folder / "ipython")}
    said = run_python(RUNS, *told, folder=folder, **own).splitlines()
    (line,) = (line for line in said if line.startswith("@@"))
    return json.loads(line[2:])


def test_nothing_is_imported_again_where_nothing_changed(seen):
    assert "f(x, w) with x f32[8,128]" in seen[0]
    assert not any("imported again" in output or "EDITED" in output for output in seen[:2])


def test_a_function_that_other_modules_import_by_name_is_the_new_one(seen):
    assert seen[2].startswith("jaxlens has changed, and was imported again.")
    assert "EDITED f(x, w) with x f32[8,128]" in seen[2]


def test_styles_which_are_read_once_are_read_again(seen):
    assert ".edited" not in seen[2]
    assert ".edited" in seen[3]


def test_the_scratch_notebook_is_written_once_and_ignored_by_git(tmp_path):
    command = runpy.run_path(str(DEV))
    make = command["scratch"]
    make.__globals__["ENVS"] = tmp_path / ".venv"
    path = make()
    assert path.relative_to(tmp_path).parts[0] == ".venv"
    cells = json.loads(path.read_text())["cells"]
    assert [cell["source"] for cell in cells] == command["SCRATCH"]
    path.write_text("mine")
    assert make().read_text() == "mine"
    assert ".venv/" in (ROOT / ".gitignore").read_text().splitlines()
