"""What `%jaxlens on` watches: every cell of a session."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxlens.ir.compile_log import CompileLog
from jaxlens.questions.recompiles.measure.cures import with_cures
from jaxlens.questions.recompiles.verbs import RecompileLog
from jaxlens.questions.session.measure import CellWatch
from jaxlens.questions.session.report import AfterCell, cell_html, cell_text, explained
from jaxlens.views.view import View


class SessionWatch:
    """Watches every cell of a session, for `%jaxlens on`.

    Args:
        stderr: Returns what was written to stderr since it was last called.

    Attributes:
        cells: Number of cells that have ended.
        after: What the last cell that compiled a function did; None if none has.
    """

    def __init__(self, stderr: Callable[[], str] = lambda: "") -> None:
        self.cells = 0
        self.after: AfterCell | None = None
        self._log: RecompileLog | None = None
        self._watch = CellWatch(stderr)
        self._programs: Counter[Any] = Counter()
        self._recompiles: Counter[Any] = Counter()
        self._watch.start()

    @property
    def programs(self) -> int:
        """Number of programs of functions that were made."""
        return self._programs.total()

    def explained(self) -> View[Any] | None:
        """Explains the last cell that compiled a function; None if none has."""
        if self._log is None or self.after is None:
            return None
        log, after = self._log, self.after
        return View(None, lambda: explained(log.document, after), know=lambda: log.facts)

    @staticmethod
    def said(after: AfterCell, html: bool) -> dict[str, str]:
        """Returns what is said unasked after a cell, by its MIME type."""
        text = {"text/plain": cell_text(after, times=not html)}
        return text | {"text/html": cell_html(after)} if html else text

    def stop(self) -> None:
        """Ends the watch."""
        self._watch.stop()

    def cell_done(self) -> AfterCell:
        """Returns what the cell compiled that ends now, with what came before it."""
        self.cells += 1
        if self._watch.is_empty:
            return AfterCell(CompileLog(), {}, {})
        ended = self._watch.split()
        log = RecompileLog(ended)
        after = AfterCell(with_cures(log.log, None), {}, {})
        if not after.compiles:
            return after
        causes = [(call.identity, call.cause) for call in after.compiles if call.changes]
        # A step and the vmap of it have one name and place; neither is a recompile of the other.
        keys = {("user", number): key for number, key in ended.keys().items()}
        origins = [getattr(keys.get((c.role, c.number)), "origin", None) for c in after.compiles]
        functions = [(c.identity, o) for c, o in zip(after.compiles, origins, strict=True)]
        self._programs.update(functions)
        self._recompiles.update(causes)
        programs = {function[0]: self._programs[function] for function in functions}
        recompiles = {cause: self._recompiles[cause] for cause in causes}
        self.after = replace(after, programs=programs, recompiles=recompiles)
        self._log = log
        return self.after
