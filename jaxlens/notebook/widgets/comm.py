"""Opens comms between a kernel and the outputs that it has displayed.

In a front end with cells, each view that a cell displays gets an `Explorer`, which is not
displayed itself. Its comm opens when the cell is done, so that the output is on the page first.
It closes when the cell runs again, or when there are too many newer views. nbconvert and nbval
send no cell id with their requests; so no comm is opened there, and a notebook that they write
has no widget state.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxlens.notebook.widgets.explorer import Explorer  # not imported by %load_ext
    from jaxlens.views.view import View

_MOST = 8  # outputs that a kernel serves; each keeps its program alive


class OutputComms:
    """The open comms of one shell.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._shown: list[View[Any]] = []
        self._open: dict[str, tuple[int, list[Explorer]]] = {}  # by cell id, with its count

    def bundle(self, view: "View[Any]") -> Mapping[str, str]:
        """Returns the mime bundle of a view, and records that the running cell displays it."""
        if cell_of(self._shell):
            self._shown.append(view)
        return view._repr_mimebundle_()

    def cell_done(self, _: Any = None) -> None:
        """Opens comms for the views of the finished cell, and closes those of its earlier run."""
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
            return  # without it outputs work as in a saved notebook

        explorers = [Explorer(view) for view in shown[-_MOST:]]
        self._open[cell] = run, explorers
        while sum(len(served) for _, served in self._open.values()) > _MOST:
            self._close(next(iter(self._open)))

    def close(self) -> None:
        """Closes every comm."""
        for cell in list(self._open):
            self._close(cell)

    def _close(self, cell: str) -> None:
        for explorer in self._open.pop(cell)[1]:
            with contextlib.suppress(Exception):  # the front end may be disconnected
                explorer.close()


def cell_of(shell: Any) -> str:
    """Returns the id of the cell that runs in a live front end; "" if there is none.

    Jupyter's front ends send it in each request's metadata (`cellId`); nbclient and nbval, which
    record a kernel's messages, do not.
    """
    kernel: Any = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else None
    metadata = parent.get("metadata", {}) if isinstance(parent, dict) else {}
    return str(metadata.get("cellId") or "")
