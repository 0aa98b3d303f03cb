"""`%jaxlens on`: one line after each cell that compiled; `%explain`: the answer behind it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument
from IPython.display import display
from traitlets import Bool, observe

from jaxlens.errors import CellError, OptionError, nearest
from jaxlens.interrupts import deferred, undoing
from jaxlens.notebook.magics.magics import lazy_magic
from jaxlens.notebook.magics.tracebacks import explain_all
from jaxlens.notebook.magics.whole_cell import HELP, STORE, WholeCellMagics

if TYPE_CHECKING:  # not imported by %load_ext
    from jaxlens.notebook.cell.kernel_stderr import KernelStderr
    from jaxlens.questions.session.verbs import SessionWatch
    from jaxlens.views.view import View


@magics_class
class JaxLens(WholeCellMagics):
    """`%jaxlens` and `%explain`, and the section `c.JaxLens` of IPython's configuration."""

    watch = Bool(
        False, help="Whether a line says what was compiled, after each cell that compiled."
    ).tag(config=True)

    _session: "SessionWatch | None" = None
    _stderr: "KernelStderr | None" = None
    _cancel_wait: Callable[[], None] | None = None
    _unexplain: Callable[[], None] | None = None
    _has_failed = False
    # Cells that ended after the last error, and after the last compile; %explain does not count.
    _since_error = _since_compile = 0

    @lazy_magic(line_magic)
    @HELP
    def jaxlens(self, line: str) -> None:
        """Say after each cell what it compiled, in one line, and warn of what goes wrong.

        Nothing is said after a cell that compiled no function of yours, and nothing is slower
        that JAX's caches serve. Warnings: a function is recompiled again and again for one
        reason, a program contains arrays of more than 10 MB, XLA replicates an array to
        reshard it, or the arrays of the process grow in five cells that define no names for them.

            %jaxlens on
            %jaxlens off
            %jaxlens            says whether it is on
            %explain            why the last cell that compiled did so, and what would avoid it

        Where tracing a function fails, a card above the traceback says why, and what to write.

        Cells count from the one that imports jax. In ipython_config.py, for every session:

            c.InteractiveShellApp.extensions = ["jaxlens"]
            c.JaxLens.watch = True
        """
        options, state = self.options_of(self.jaxlens, line)
        if options is None:
            return
        if state not in ("", "on", "off"):
            raise OptionError(
                f"%jaxlens takes on or off, got {state!r}; {nearest(state, ('on', 'off'))}"
            )
        if state:
            self.watch = state == "on"
            self.begin()
        print(self._state())

    @lazy_magic(line_magic)
    @argument(
        "--fits",
        default="",
        metavar="DEVICE",
        help='try what would make the program that ran out of memory fit: h100, "16 GB"',
    )
    @STORE
    @HELP
    def explain(self, line: str) -> None:
        """Explain the last cell: why it compiled, or why its tracing failed.

        After `%jaxlens on`, the last cell that compiled a function of yours is explained in full:
        what differs from the earlier calls, and what would avoid the recompile, tried now. If the
        last error came from tracing or for want of memory, and came later, it is explained instead:

            %explain
            %explain --fits "16 GB"     what would make a program fit that ran out of memory

        In Python:  jaxlens.explain() for errors, with jaxlens.recompiles() as log: ... for cells
        """
        options, rest = self.options_of(self.explain, line)
        if options is None:
            return
        if rest:
            raise OptionError(f"%explain takes no code, got {rest!r}: %explain alone explains")
        view = self._answer()
        if options.fits:
            view = self._fits(view, options.fits)
        self.store(options, view)
        self.display(view)

    def _answer(self) -> "View[Any]":
        import jaxlens
        from jaxlens.questions.out_of_memory.verbs import out_of_memory

        error = getattr(sys, "last_value", None) if self._has_failed else None
        if error is not None and (failure := jaxlens.explain(error) or out_of_memory(error)):
            return self._of_earlier(failure, self._since_error)
        session = self._session
        view = session.explained() if session is not None else None
        if view is None:
            first = "" if self.watch else "%jaxlens on, run the cell, then %explain: "
            raise CellError(f"{first}no cell has compiled a function while jaxlens watched")
        return self._of_earlier(view, self._since_compile)

    def _fits(self, view: "View[Any]", device: str) -> "View[Any]":

        import jaxlens

        if view.capture is None:
            raise CellError("--fits is for a program that ran out of memory, and was identified")
        return jaxlens.fits(view.capture, device=device)

    def _of_earlier(self, view: "View[Any]", since: int) -> "View[Any]":
        """Returns an answer, with the note that cells ran since the one that it is about."""
        from jaxlens.render.document import Document, Findings
        from jaxlens.report import Finding

        def document() -> Document:
            last = "the last cell" if since == 1 else f"the last {since:,} cells"
            text = f"This is about an earlier cell: there is nothing to explain in {last}."
            blocks = (Findings((Finding(text, "counted"),)), *view.document.blocks)
            return replace(view.document, blocks=blocks)

        return replace(view, build=document) if since else view

    def _state(self) -> str:
        if not self.watch:
            return "jaxlens is off: %jaxlens on watches every cell"
        if self._session is None:
            return "jaxlens is on; it watches from the moment that a cell imports jax"
        from jaxlens.report import count

        programs = count(self._session.programs, "program")
        return f"jaxlens is on: {programs} compiled in {count(self._session.cells, 'cell')}"

    @observe("watch")
    def _switched(self, _: Any) -> None:
        if not self.watch:
            self.stop()

    @undoing
    def stop(self) -> None:
        """Ends the watch."""
        if self._session is not None:
            self._session.stop()
        if self._stderr is not None:
            self._stderr.stop()
        if self._cancel_wait is not None:
            self._cancel_wait()
        if self._unexplain is not None:
            self._unexplain()
        self._session, self._stderr, self._cancel_wait, self._unexplain = None, None, None, None

    def begin(self) -> None:
        """Starts the watch as soon as JAX is there; importing it is left to the user's cells."""
        if not self.watch or self._session is not None:
            return
        if "jax" not in sys.modules:
            from jaxlens.after_import import when_imported

            self._cancel_wait = self._cancel_wait or when_imported("jax", self.begin)
            return
        try:
            from jaxlens.notebook.cell.kernel_stderr import KernelStderr
            from jaxlens.questions.session.verbs import SessionWatch

            with deferred(self.stop):
                self._stderr = KernelStderr()
                self._stderr.start()
                self._session = SessionWatch(self._stderr.read)
                self._unexplain = explain_all(self.shell)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Ends the watch: a fault of jaxlens must not be the user's."""
        self.watch = False
        print(f"jaxlens is off: {type(error).__name__}: {error}"[:300], file=sys.stderr)

    def cell_done(self, result: Any) -> None:
        """Shows a line if the cell compiled, and warnings; called by IPython after each cell."""
        has_failed = result.error_in_exec is not None
        self._has_failed = self._has_failed or has_failed
        if not str(result.info.raw_cell).lstrip().startswith("%explain"):
            self._since_error = 0 if has_failed else self._since_error + 1
            self._since_compile += 1
        try:
            if self._session is None:
                return self.begin()
            is_captured = isinstance(self.shell.display_pub, CapturingDisplayPublisher)
            if is_captured and not result.info.store_history:
                return None  # the inside of %%capture: the line belongs to the whole cell
            after = self._session.cell_done()
            if after.compiles:
                self._has_failed, self._since_compile = has_failed, 0
                display(self._session.said(after, self.in_html), raw=True)
        except Exception as error:
            self._fail(error)
        return None
