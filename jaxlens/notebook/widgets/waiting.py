"""Shows progress in the output of a running cell, until the answer replaces it.

The answer updates the same output, so that the saved notebook has only one. nbconvert and nbval,
which store each message of a kernel as an output, get no progress.
"""

from collections.abc import Callable, Mapping
from html import escape
from threading import Lock
from typing import Any
from uuid import uuid4

from IPython.core.displaypub import CapturingDisplayPublisher

from jaxlens import progress
from jaxlens.notebook.widgets.comm import cell_of

_LINE = (
    '<div role="status" style="font:13px/1.6 system-ui,sans-serif">{text} '
    '<progress {value} style="vertical-align:middle;width:14em"></progress> {time}</div>'
)
# Counts seconds in the page: another update of the output would scroll its panes back.
_CLOCK = (
    '<span data-since="{since:.0f}">{since:.0f}</span> s{last}<script>(() => {{'
    "const e = [...document.querySelectorAll('[data-since]')].pop(), t = Date.now();"
    "const i = e && setInterval(() => e.isConnected ? (e.textContent = Math.round("
    "+e.dataset.since + (Date.now() - t) / 1000)) : clearInterval(i), 1000);}})()</script>"
)


class NotebookLine:
    """The progress line in the output of one cell, until the answer replaces it.

    Args:
        publisher: Sends displays to the front end.
    """

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._id = ""
        self._has_panes = False
        self._has_answer = False  # its first paint
        self._ended = False
        self._step: progress.Task | None = None
        self._sentence = ""
        self._lock = Lock()  # the progress thread shows, the main thread does the rest

    def show(self, step: progress.Task) -> None:
        """Shows or updates the line; not above panes, which an update would scroll back."""
        with self._lock:
            if not (self._has_panes or self._ended):
                text = step.sentence
                self._step, self._sentence = step, text
                self._publish({"text/plain": text, "text/html": _html(step, text)})

    def clear(self) -> None:
        """Does nothing: the answer replaces the output, or the end of the cell empties it."""

    def preview(self, html: str) -> None:
        """Shows finished panes below the line."""
        step = progress.current()
        if step is not None:
            html = _html(step, f"{step.name}; ready so far:") + html
            with self._lock:
                self._has_panes = True
                self._publish({"text/plain": step.sentence, "text/html": html})

    def first(self, html: str) -> None:
        """Shows the first paint of an answer, which stays if the cell is interrupted."""
        with self._lock:
            self._has_panes = self._has_answer = True
            self._publish({"text/html": html})

    def replace(self, bundle: Mapping[str, Any]) -> bool:
        """Replaces the line by an answer; returns False if there is no line."""
        with self._lock:
            if not self._id:
                return False
            self._publish(bundle)
            self._id, self._has_panes, self._has_answer = "", False, False
            return True

    def end(self, interrupted: bool) -> None:
        """Empties the output if there is a line, also for a step that outlives the cell.

        Args:
            interrupted: Whether the user ended the cell: the output then says during which step.
        """
        with self._lock:
            self._ended = True
            step = self._step if interrupted else None
            if self._has_answer:
                return
        after = f"Interrupted after {step.seconds:.0f} s: {self._sentence}." if step else ""
        self.replace({"text/plain": after} if after else {})

    def _publish(self, data: Mapping[str, Any]) -> None:
        update, self._id = bool(self._id), self._id or uuid4().hex
        transient = {"display_id": self._id}
        self._publisher.publish(data=dict(data), transient=transient, update=update)


def _html(step: progress.Task, text: str) -> str:
    value = f'value="{min(step.seconds, step.last):.2f}" max="{step.last:.2f}"' if step.last else ""
    last = f" (last time {step.last:.0f} s)" if step.last else ""
    time = _CLOCK.format(since=step.seconds, last=last)
    return _LINE.format(text=escape(text), value=value, time=time)


class CellProgress:
    """Shows steps in the running cell of a shell, if a live front end runs it.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._line: NotebookLine | None = None
        self._publisher: Any = None
        self._runs = False

    def cell_begins(self, _: Any = None) -> None:
        """Called before a cell runs; the line is not shown for requests of a comm between cells."""
        self._runs = True

    def look_begins(self) -> None:
        """Called before a magic runs the cell and captures its displays."""
        self._publisher = self._shell.display_pub

    def front_end(self) -> NotebookLine | None:
        """Returns the line of the running cell; None without a cell or a live front end."""
        publisher = self._publisher or self._shell.display_pub
        captured = isinstance(publisher, CapturingDisplayPublisher)  # by %%capture
        if not (self._runs and cell_of(self._shell)) or captured:
            return None
        self._line = self._line or NotebookLine(publisher)
        return self._line

    def replace(self, bundle: Mapping[str, Any]) -> bool:
        """Shows an answer in place of the line; returns False if there is no line."""
        return self._line is not None and self._line.replace(bundle)

    def first(self, html: Callable[[], str]) -> None:
        """Shows the first paint of an answer in a live front end; nothing for ""."""
        line = self.front_end()
        if line is not None and (early := html()):
            line.first(early)

    def previewed(self, html: Callable[[], str]) -> Callable[[], None]:
        """Returns a function that shows finished panes below the line."""

        def show() -> None:
            if self._line is not None:
                self._line.preview(html())

        return show

    def cell_done(self, result: Any = None) -> None:
        """Empties the output if no answer replaced the line, or writes what was interrupted."""
        if self._line is not None:
            error = getattr(result, "error_in_exec", None)
            self._line.end(isinstance(error, KeyboardInterrupt))
        self._line, self._publisher, self._runs = None, None, False
