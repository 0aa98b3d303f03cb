"""A real IPython shell for each test, and one way to look that is both verb and magic."""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import jaxlens


@dataclass(frozen=True)
class Ran:
    """What a cell did.

    Attributes:
        ok: Whether it succeeded.
        out: What it printed, tracebacks included.
        shown: Text of what it displayed.
        error: The exception that it raised.
    """

    ok: bool
    out: str
    shown: str
    error: BaseException | None

    def well(self):
        """Itself, where the cell succeeded."""
        assert self.ok, self.out
        return self

    def refused(self):
        """The one line that it printed, where the cell failed."""
        assert not self.ok
        assert len(self.out.splitlines()) == 1
        return self.out


@pytest.fixture(scope="session")
def one_shell():
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    main, hook = sys.modules["__main__"], sys.displayhook
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    yield shell
    shell.history_manager.end_session()
    sys.modules["__main__"], sys.displayhook = main, hook
    InteractiveShell.clear_instance()
    gc.unfreeze()


@pytest.fixture
def shell(one_shell, request):
    """A shell with the magics loaded, whose namespace is that of the module's SETUP, cell 1."""
    one_shell.reset(new_session=True)
    # A reset collects all garbage: a second each time behind some thousand tests, and half of one
    # once the compiler is loaded, unless what is left then is out of sight of the next.
    gc.freeze()
    one_shell.extension_manager.load_extension("jaxlens")
    if setup := getattr(request.module, "SETUP", ""):
        one_shell.run_cell(setup, store_history=True).raise_error()
    yield one_shell
    one_shell.extension_manager.unload_extension("jaxlens")


@pytest.fixture
def run(shell):
    """Runs a cell as a notebook does."""

    def run(code):
        with capture_output() as captured:
            result = shell.run_cell(code, store_history=True)
        shown = "\n".join(output.data.get("text/plain", "") for output in captured.outputs)
        error = result.error_in_exec or result.error_before_exec
        return Ran(bool(result.success), captured.stdout + captured.stderr, shown, error)

    return run


Look = Callable[..., Any]


@pytest.fixture(params=["verb", "magic", "line magic"])
def look(request, shell, run):
    """`look("jaxpr", "f(x)") -> view`, by verb, cell magic and line magic."""

    def look(verb, function, arguments=""):
        call = f"{function}({arguments})"
        if request.param == "verb":
            given = f"{function}, {arguments}" if arguments else function
            ran = run(f"import jaxlens\nview_ = jaxlens.{verb}({given})\nview_.document")
        elif request.param == "magic":
            ran = run(f"%%{verb} -o view_\n{call}")
        else:
            ran = run(f"%{verb} -o view_ {call}")
        assert ran.ok, ran.out
        return shell.user_ns["view_"]

    return look


@pytest.fixture
def public():
    return jaxlens
