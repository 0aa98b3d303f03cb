"""The learner's own JAX where jax cannot be imported, as in a browser; what JAX has is on file."""

import json
import os
import sys

import numpy as np
import pytest

from jaxlens.course import own
from jaxlens.course.check import judged
from jaxlens.course.puzzles import references
from jaxlens.course.trial import run_answer
from jaxlens.errors import LensError
from jaxlens.notebook.magics.tracebacks import says_what_it_needs
from tests.support.paths import python

BLOCKED = """\
import subprocess, sys, threading
for name in ("jax", "jaxlib", "resource"):
    sys.modules[name] = None
def refused(*_, **__):
    raise RuntimeError("a browser has no threads and no processes")
threading.Thread.start = subprocess.Popen.__init__ = refused
"""
OF_XLA = {"26.4", "30.2"}


@pytest.fixture(scope="module")
def found():
    """What JAX computes for the whole track."""
    references.computed.clear()
    for puzzle in own.track():
        outcome = judged(puzzle, lambda puzzle=puzzle: run_answer(puzzle, puzzle.solution))
        assert outcome.solved, outcome.sentence
    return {name: _plain(value) for name, value in sorted(references.computed.items())}


def _plain(value):
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return value
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return json.loads(json.dumps(np.asarray(value, np.float64).round(6).tolist()))


def _same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-4, abs=1e-4)


@pytest.mark.backend
def test_what_is_on_file_is_what_jax_computes(found):
    if os.environ.get("JAXLENS_UPDATE"):
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        references.FILE.write_text(f"{{\n{lines}\n}}\n")
        references._recorded.cache_clear()
    recorded = references._recorded()
    assert recorded.keys() == found.keys()
    assert [name for name in found if not _same(recorded[name], found[name])] == []


def _run(code, folder):
    return python("-c", BLOCKED + code, folder=folder)


def test_all_parts_are_judged(tmp_path):
    for puzzle in own.track():
        own.save(puzzle, puzzle.solution, tmp_path)
    done = _run("from jaxlens.course.command import main; main(['mine', '.'])", tmp_path)
    lines = done.stdout.splitlines()
    of_numpy = [puzzle for puzzle in own.track() if puzzle.id not in OF_XLA]
    assert [line[:9].split() for line in lines if line.startswith("ok")] == [
        ["ok", puzzle.id] for puzzle in of_numpy
    ], done.stderr
    assert [line.split()[1] for line in lines if line.startswith("BAD")] == sorted(OF_XLA)
    assert all("needs jax" in line for line in lines if line.startswith("BAD"))


@pytest.mark.parametrize("id", [p.id for p in own.track() if p.id not in OF_XLA])
def test_wrong_answers_get_their_hint(id, tmp_path):
    done = _run(
        "from jaxlens.course import check, own\n"
        "from jaxlens.course.check import judged\n"
        "from jaxlens.course.library import puzzle\n"
        "from jaxlens.course.namespace import run_source\n"
        f"p = puzzle({id!r})\n"
        "for wrong in p.wrong:\n"
        "    run = lambda: run_source(wrong.code, '<cell>', own.names_before(p, None))\n"
        "    told = judged(p, run).sentence\n"
        "    assert 'is not solved' in told and wrong.says in told, told\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_the_cells_of_a_lesson(tmp_path):
    done = _run(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'jaxlens')\n"
        "from jaxlens.course.library import puzzle\n"
        "print(shell.run_line_magic('hint', '3.1'))\n"
        "print(shell.run_cell_magic('puzzle', '3.1', puzzle('3.1').starter))\n"
        "print(shell.run_cell_magic('puzzle', '3.1', puzzle('3.1').solution))\n"
        "print(shell.run_cell_magic('puzzle', '1.1', 'def layer(w, b, x): pass'))\n",
        tmp_path,
    )
    assert "Hint 1 of 3" in done.stdout, done.stderr
    assert "Puzzle 3.1 is not solved" in done.stdout
    assert "Puzzle 3.1 is solved" in done.stdout
    assert (tmp_path / own.FILE).exists()
    assert "needs jax, which is not installed" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_prediction_says_what_it_needs(tmp_path):
    done = _run("from jaxlens.course import predict; print(predict('3.c', 3))", tmp_path)
    assert done.stderr.splitlines()[-1] == (
        "jaxlens.errors.PackageError: prediction 3.c needs jax, which is not installed: "
        "pip install jax"
    )


CALL = "def f(x): return x\nf(3)"
MAGICS = {
    "%%jaxpr": CALL,
    "%%hlo": CALL,
    "%%compile": CALL,
    "%%explore": CALL,
    "%%check": CALL,
    "%%nan": CALL,
    "%%recompiles": CALL,
    "%%timeline": CALL,
    "%jaxpr": "abs(3)",
    "%compile": "--cost abs(3)",
    "%nan": "abs(3)",
    "%recompiles": "abs(3)",
    "%timeline": "abs(3)",
    "%arrays": "",
    "%explain": "",
}


def test_a_magic_says_in_a_line_that_it_needs_jax(tmp_path):
    done = _run(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        "shell.run_line_magic('load_ext', 'jaxlens')\n"
        f"for magic, code in {MAGICS!r}.items():\n"
        "    print('>', magic)\n"
        "    shell.run_cell(magic + ('\\n' if magic[1] == '%' else ' ') + code)\n",
        tmp_path,
    )
    said = [part.split("\n", 1) for part in done.stdout.split("> ")[1:]]
    assert {magic: text.strip() for magic, text in said} == {
        magic: f"PackageError: {magic} needs jax, which is not installed: pip install jax"
        for magic in MAGICS
    }


@pytest.mark.parametrize("package", ["jax", "jax.numpy", "no_such_package"])
def test_an_import_of_the_users_keeps_its_error(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)

    @says_what_it_needs
    def magic(self, line):
        exec(f"import {line}", {})

    with pytest.raises(ModuleNotFoundError, match="halted") as error:
        magic(None, package)
    assert not isinstance(error.value, LensError)
