"""A function that is called in the middle of the cell that imports a module."""

import importlib
import importlib.util
import sys
import textwrap

import pytest

from jaxlens.after_import import AfterImport
from tests.support.paths import run_python


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a package that is not imported yet, which fails where `fails` is a file."""
    package = tmp_path / "awaited"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pathlib import Path\nif (Path(__file__).parent / 'fails').exists(): 1 / 0\n"
    )
    (package / "inner.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield "awaited"
    for name in [name for name in sys.modules if name.split(".")[0] == "awaited"]:
        del sys.modules[name]


def left():
    return [finder for finder in sys.meta_path if isinstance(finder, AfterImport)]


@pytest.mark.parametrize("name", ["awaited", "awaited.inner"])
def test_it_is_called_once_and_leaves_nothing(module, name):
    seen = []
    AfterImport(module, lambda: seen.append(module in sys.modules))
    assert importlib.util.find_spec(module) is not None  # libraries ask so what is installed
    assert (seen, len(left())) == ([], 1)
    importlib.import_module("json")
    importlib.import_module(name)
    assert (seen, left()) == ([True], [])
    found = sys.modules[module]
    assert found.__spec__.loader is found.__loader__
    assert not isinstance(found.__loader__, AfterImport)
    importlib.reload(found)
    assert seen == [True]


def test_two_can_wait_for_one_module(module):
    seen = []
    AfterImport(module, lambda: seen.append("first"))
    AfterImport(module, lambda: seen.append("second"))
    importlib.import_module(module)
    assert (sorted(seen), left()) == (["first", "second"], [])


def test_an_import_that_fails_is_awaited_again(module, tmp_path):
    seen = []
    AfterImport(module, lambda: seen.append(1))
    (tmp_path / module / "fails").touch()
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(module)
    (tmp_path / module / "fails").unlink()
    assert seen == []
    importlib.import_module(module)
    assert (seen, left()) == ([1], [])


def test_it_can_be_stopped_and_a_module_that_is_not_there_stays_so(module):
    waiting = AfterImport(module, lambda: 1 / 0)
    waiting.stop()
    waiting.stop()
    importlib.import_module(module)
    waiting = AfterImport("not_there_at_all", lambda: 1 / 0)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("not_there_at_all")
    waiting.stop()
    assert left() == []


def test_the_cell_that_imports_jax_is_watched():
    code = """
    import sys
    from traitlets.config import Config
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    def cell(text):
        with capture_output() as out:
            shell.run_cell(text, store_history=True)
        shown = [each.data["text/plain"] for each in out.outputs]
        print(out.stdout.strip(), *shown, "jax" in sys.modules, sep="|")
    cell("%load_ext jaxlens")
    cell("%jaxlens on")
    cell("%jaxlens off")
    cell("%jaxlens on")
    cell('''import jax.numpy as jnp, jax
    def double(x): return x + x
    f = jax.jit(double)
    y = f(jnp.ones(3)), f(jnp.ones(4))''')
    cell("%jaxlens")
    """
    assert run_python(textwrap.dedent(code)).splitlines() == [
        "|False",
        "jaxlens is on; it watches from the moment that a cell imports jax|False",
        "jaxlens is off: %jaxlens on watches every cell|False",
        "jaxlens is on; it watches from the moment that a cell imports jax|False",
        "|Compiled `double` 2 times, because x's length changed: 3, 4.|True",
        "jaxlens is on: 2 programs compiled in 1 cell|True",
    ]
