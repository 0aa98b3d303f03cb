"""Loading, reloading and unloading leave nothing behind and cost next to nothing."""

import sys

import pytest

from tests.support.paths import run_python

OURS = ("jaxpr", "hlo", "compile", "explore")


def state(shell):
    magics = shell.magics_manager
    return {
        "line": dict(magics.magics["line"]),
        "cell": dict(magics.magics["cell"]),
        "registry": set(magics.registry),
        "matchers": list(shell.Completer.custom_matchers),
        "events": {name: list(found) for name, found in shell.events.callbacks.items()},
        "exceptions": shell.custom_exceptions,
        "transformers": list(shell.ast_transformers),
        "names": set(shell.user_ns),
    }


@pytest.fixture(autouse=True)
def _load_ext_itself_is_loaded(one_shell):
    """IPython loads its own magics when they are first used."""
    one_shell.run_line_magic("load_ext", "jaxlens")
    one_shell.run_line_magic("unload_ext", "jaxlens")


def test_unloading_leaves_the_shell_as_it_was(one_shell):
    before = state(one_shell)
    one_shell.run_line_magic("load_ext", "jaxlens")
    assert all(name in one_shell.magics_manager.magics["cell"] for name in OURS)
    one_shell.run_line_magic("unload_ext", "jaxlens")
    assert state(one_shell) == before


def test_loading_twice_and_reloading(one_shell, capsys):
    before = state(one_shell)
    one_shell.run_line_magic("load_ext", "jaxlens")
    once = state(one_shell)
    one_shell.run_line_magic("load_ext", "jaxlens")
    assert "already loaded" in capsys.readouterr().out
    sys.modules["jaxlens"].load_ipython_extension(one_shell)
    assert state(one_shell) == once
    one_shell.run_line_magic("reload_ext", "jaxlens")
    assert len(state(one_shell)["matchers"]) == len(once["matchers"])
    assert one_shell.find_cell_magic("jaxpr") is not None
    one_shell.run_line_magic("unload_ext", "jaxlens")
    assert state(one_shell) == before


def test_a_magic_of_the_users_comes_back(one_shell):
    def mine(line, cell):
        return "mine"

    one_shell.register_magic_function(mine, "cell", "hlo")
    one_shell.run_line_magic("load_ext", "jaxlens")
    one_shell.run_line_magic("unload_ext", "jaxlens")
    assert one_shell.run_cell_magic("hlo", "", "x") == "mine"
    one_shell.magics_manager.magics["cell"].pop("hlo")


def test_loading_imports_nothing_heavy_and_a_look_no_widgets():
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jaxlens")
heavy = "jax jaxlib numpy ipywidgets graphviz wasmtime jaxlens.questions jaxlens.options".split()
print(sys.modules.keys() & set(heavy))
shell.run_cell("import jax.numpy as jnp")
shell.run_cell("%jaxpr -o v jnp.ones(3).sum()")
assert shell.user_ns["v"].document
print(sys.modules.keys() & {"ipywidgets", "anywidget"})
"""
    first, *_, last = run_python(code).splitlines()
    assert first == last == "set()"


def test_cells_have_numbers_without_a_magic(shell, monkeypatch):
    """Verbs too name the kernel's files of cells by execution number."""
    from jaxlens.ir import spans

    key = "/tmp/ipykernel_1/123.py"
    monkeypatch.setitem(shell.compile._filename_map, key, 7)
    assert spans.describe(key).name == "cell 7"
    shell.extension_manager.unload_extension("jaxlens")
    assert spans.describe(key).name == "cell"
    shell.extension_manager.load_extension("jaxlens")
