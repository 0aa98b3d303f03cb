"""A question can be deleted: its folder gone, the others answer as before."""

from pathlib import Path
from pkgutil import iter_modules

import pytest

from jaxlens import questions
from tests.support.paths import RECORDS, ROOT, python

FOLDER = Path(questions.__path__[0])
NAMES = [folder.name for folder in iter_modules(questions.__path__)]

# In one process, with all of jaxlens imported anew each time: a saved capture is asked every
# question that does not use the one deleted, and the magics are loaded and asked for help.
TRIAL = """
import os, sys
from importlib import invalidate_caches
from pathlib import Path
from IPython.testing.globalipapp import start_ipython

folder, record, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
shell = start_ipython()

def asked(gone=""):
    import jaxlens
    from jaxlens import errors, questions
    capture, answers = jaxlens.load(record), {}
    for row in questions.rows():
        made = getattr(row.lens, "func", row.lens)
        if made.__name__ == "_several_programs" or row.name == "fits":  # these take more
            continue
        home = sys.modules[made.__module__]
        uses = getattr(home, "USES", ())
        if gone in uses:
            continue
        lens = row.lens()
        try:
            answer = str(lens.report(lens.facts(capture)))
        except errors.UnavailableError as why:
            answer = str(why)
        answers[row.verb, row.name] = home.__name__.split(".")[2], uses, answer
    return answers

def anew():
    for module in [m for m in sys.modules if m.partition(".")[0] == "jaxlens"]:
        del sys.modules[module]
    invalidate_caches()

before = asked()
assert len(before) > 15, sorted(before)
for name in names:
    target = os.readlink(folder / name)
    (folder / name).unlink()
    anew()
    left = {row: found for row, found in before.items() if name not in (found[0], *found[1])}
    try:
        found = asked(name)
        assert found == left, [row for row in left if left[row] != found.get(row)]
        shell.run_line_magic("load_ext", "jaxlens")
        for magic in ("jaxpr", "hlo", "compile", "explore"):
            shell.run_line_magic(magic, "-h")
        shell.run_line_magic("unload_ext", "jaxlens")
    except Exception as error:
        print(f"without {name}: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        (folder / name).symlink_to(target)
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the package whose questions can be taken out."""
    package = tmp_path / "jaxlens"
    (package / "questions").mkdir(parents=True)
    for here, there in ((ROOT / "jaxlens", package), (FOLDER, package / "questions")):
        for path in here.iterdir():
            if path.name not in ("questions", "__pycache__"):
                (there / path.name).symlink_to(path)
    return tmp_path


def without(tree, names, code, *words):
    return python("-c", code, *words, *names, folder=tree, PYTHONPATH=str(tree))


def test_any_question_can_be_deleted(tree) -> None:
    record = str(RECORDS / "mlp_step.cpu.jaxlens")
    folder = str(tree / "jaxlens" / "questions")
    done = without(tree, NAMES, TRIAL, folder, record)
    assert done.returncode == 0, done.stderr
    assert "without " not in done.stderr, done.stderr


LIVE = """
import jax, jax.numpy as jnp
import jaxlens

def f(x, w):
    return jnp.tanh(x @ w).sum()

x, w = jnp.ones((8, 4)), jnp.ones((4, 100))
for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore):
    assert "tanh" in str(verb(f, x, w))
assert jaxlens.fusion(f, x, w).facts
"""


@pytest.mark.parametrize("name", ["values", "memory", "cost", "times"])
def test_a_live_program_is_shown_without_a_question(tree, name) -> None:
    """For real: what is gone is looked for in no other place. Three have a pane in the viewer."""
    (tree / "jaxlens" / "questions" / name).unlink()
    done = without(tree, [], LIVE)
    assert done.returncode == 0, done.stderr
