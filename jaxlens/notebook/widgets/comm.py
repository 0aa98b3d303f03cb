"""Opens the line between a kernel and the outputs that it has shown.

Where a front end with cells is connected, each view that a cell shows gets an `Explorer` that
nobody displays. It is opened once the cell is done, so that the output is there first, and
closed when the cell runs again, or when newer views have taken its place. Runs of nbconvert
and nbval say of no message which cell it comes from; so nothing is opened there, and a notebook
they write holds no widget's state.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxlens.notebook.widgets.explorer import Explorer  # %load_ext does without
    from jaxlens.views.view import View

_MOST = 8  # outputs that a kernel serves; each keeps its program


class OutputComms:
    """The open lines of one shell.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._shown: list[View] = []
        self._open: dict[str, tuple[int, list[Explorer]]] = {}  # by cell, with its number

    def show(self, view: "View") -> None:
        """Notes that a view is being shown by the cell that runs."""
        if cell_of(self._shell):
            self._shown.append(view)

    def bundle(self, view: "View") -> Mapping[str, str]:
        """The faces of a view that a cell's last expression gives, or `display` is given."""
        self.show(view)
        return view._repr_mimebundle_()

    def cell_done(self, _: Any = None) -> None:
        """Opens a line for what the cell has shown, and closes those of its earlier run."""
        cell = cell_of(self._shell)
        shown, self._shown = self._shown, []
        run = self._shell.execution_count
        if cell in self._open and self._open[cell][0] != run:
            self._close(cell)
        if not cell or not shown:
            return
        try:
            from jaxlens.notebook.widgets.explorer import Explorer  # ipywidgets takes half a second
        except ImportError:
            return  # without it what was shown is as in a saved notebook

        explorers = [Explorer(view) for view in shown[-_MOST:]]
        self._open[cell] = run, explorers
        while sum(len(held) for _, held in self._open.values()) > _MOST:
            self._close(next(iter(self._open)))

    def close(self) -> None:
        """Closes every line."""
        for cell in list(self._open):
            self._close(cell)

    def _close(self, cell: str) -> None:
        for explorer in self._open.pop(cell)[1]:
            with contextlib.suppress(Exception):  # the front end may be gone
                explorer.close()


def cell_of(shell: Any) -> str:
    """Which cell of a live front end is running; "" where there is none.

    Jupyter's front ends name the cell in each request's metadata (`cellId`); nbclient and
    nbval, which write down what a kernel says, do not.
    """
    kernel: Any = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else None
    metadata = parent.get("metadata", {}) if isinstance(parent, dict) else {}
    return str(metadata.get("cellId") or "")
