"""The magics: read the line, run the cell, call one verb, show what it returns."""

from contextlib import suppress
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display

from jaxlens.errors import LensError
from jaxlens.notebook.magics.complete import remember, remember_name
from jaxlens.notebook.magics.tracebacks import of_the_user, says_what_it_needs
from jaxlens.notebook.widgets.comm import OutputComms
from jaxlens.notebook.widgets.waiting import CellProgress

if TYPE_CHECKING:
    from jaxlens.notebook.cell.run_cell import ParsedCell  # not imported by %load_ext
    from jaxlens.notebook.magics.look import Looking  # not imported by %load_ext
    from jaxlens.notebook.magics.magic_line import MagicLine  # not imported by %load_ext
    from jaxlens.views.view import View


def _early(view: "View[Any]") -> str:
    """Returns the HTML of a view that shows while the rest of it is written; "" for none."""
    from jaxlens.notebook.widgets.first_paint import first_paint  # not imported by %load_ext

    return first_paint(view.document)


def lazy_magic(register: Any) -> Any:
    """Returns IPython's decorator for magics whose parser is built on first use.

    `%load_ext` builds none. IPython's `?` and Shift-Tab call `getdoc` where a function has it.
    `$x` and `{x}` in the line are left to the magic. Where JAX is missing, a line says so.

    Args:
        register: `line_magic` or `line_cell_magic` of IPython.
    """

    def decorated(magic: Any) -> Any:
        magic = says_what_it_needs(magic)

        def getdoc() -> str:
            from jaxlens.notebook.magics.magic_line import first_help

            return first_help(magic)

        magic.getdoc = getdoc
        return register(no_var_expand(magic))

    return decorated


class OutputMagics(Magics):
    """What all magics share: reading the code below or behind them, and showing a view.

    Args:
        shell: IPython's shell.
        comms: Opens comms between a live kernel and its outputs.
        progress: Shows in the running cell what is waited for.
    """

    def __init__(self, shell: Any, comms: OutputComms, progress: CellProgress) -> None:
        super().__init__(shell)
        self._comms = comms
        self._progress = progress

    def read_code(self, magic: str, cell: str | None, line: str) -> "ParsedCell":
        """Parses the cell, or the line behind a line magic.

        Raises:
            SyntaxError: As Python raises it.
        """
        from jaxlens.notebook.cell import run_cell as cells  # not imported by %load_ext

        if cell is None:
            return cells.read_statement(self.shell, magic, line)
        return cells.read_cell(self.shell, cell)

    @property
    def in_html(self) -> bool:
        """Whether the front end shows HTML."""
        return "text/html" in self.shell.display_formatter.active_types

    def display(
        self, view: "View[Any]", full: bool = False, rest: str = ".text(full=True)"
    ) -> None:
        """Displays a view in this front end.

        A terminal gets text only, so that no HTML or layout is computed. Its output is not saved,
        so the text includes times, which change from run to run.

        Args:
            view: The view.
            full: Whether a terminal's text leaves nothing out.
            rest: What writes the rest: an option of the magic, where it has one.
        """
        if self.in_html:
            with suppress(LensError):  # which the bundle says
                self._progress.first(lambda: _early(view))
            bundle = dict(self._comms.bundle(view))
        else:
            bundle = {"text/plain": view.text(full=full, times=True, rest=rest)}
        if not self._progress.replace(bundle):
            display(bundle, raw=True)


@magics_class
class ProgramMagics(OutputMagics):
    """`%%jaxpr`, `%%hlo`, `%%compile`, `%%explore` and `%%check`, and their line forms."""

    @lazy_magic(line_cell_magic)
    def jaxpr(self, line: str, cell: str | None = None) -> Any:
        """Show the equations that tracing records, beside your lines and as a graph.

        The cell runs as it would without the magic. The call of your function in its last
        line is looked at, inside print, an assignment, a loop or anything else, before it
        is made; a bare call is only looked at:

            %%jaxpr
            y = normalise(x)
            predict(params, y)             is traced, not run

            %%jaxpr
            guess = predict(params, x)     is traced, then run

        In Python this is `jaxlens.jaxpr(predict, params, y)`. An expression of JAX's own
        functions, such as `jnp.tanh(x @ w).sum()`, is looked at as a function of the arrays
        that it names. Where there is no call, or Python cannot trace it, the jitted programs
        that the cell called are. A cell that ends in a def needs shapes:

            %%jaxpr --grad --in "params={'w': f32[128,4]}, x=f32[8,128]"
            def loss(params, x):
                return (x @ params["w"]).sum()

        In one line, options first:  %jaxpr --vmap 0,None f(xs, w)
        """
        return self._look(self.jaxpr, line, cell)

    @lazy_magic(line_cell_magic)
    def hlo(self, line: str, cell: str | None = None) -> Any:
        """Show XLA's program: before and after fusion, at any stage, after any pass.

        The cell runs as it would without the magic; the call in its last line is looked at
        before it is made. A bare call is compiled and not run:

            %%hlo                      what each fusion swallowed, before and after
            predict(params, x)

            %hlo --stage stablehlo predict(params, x)
            %hlo --passes predict(params, x)
            %hlo --diff hlo optimized predict(params, x)

        In Python:  jaxlens.hlo(predict, params, x), and with options
        jaxlens.hlo(jaxlens.capture(predict, params, x), stage="stablehlo")
        """
        return self._look(self.hlo, line, cell)

    @lazy_magic(line_cell_magic)
    def compile(self, line: str, cell: str | None = None) -> Any:
        """Show what compiling did: cache verdict, kernels, cost, memory, times, machine code.

        The cell runs as it would without the magic; the call in its last line is looked at
        before it is made. A bare call is compiled, and only --run executes it:

            %%compile
            params = step(params, batch)

            %compile --run 20 step(params, batch)
            %compile --kernel multiply_subtract_fusion --asm step(params, batch)

        In Python:  jaxlens.compile(step, params, batch), and with options
        jaxlens.compile(jaxlens.capture(step, params, batch), run=20)
        """
        return self._look(self.compile, line, cell)

    @lazy_magic(line_cell_magic)
    def explore(self, line: str, cell: str | None = None) -> Any:
        """Follow one expression from your line to machine code, and back, in linked panes.

        The cell runs as it would without the magic; the call in its last line is looked at
        before it is made. A bare call is compiled and not run:

            %%explore
            step(params, batch)

        Point at a line, an equation, an instruction or a kernel: what it became and what it
        came from lights up in every pane. A click keeps it, Escape lets it go, ? lists the keys.

            %explore --grad loss(params, x)

        In Python:  jaxlens.explore(step, params, batch)
        """
        return self._look(self.explore, line, cell)

    @lazy_magic(line_cell_magic)
    def check(self, line: str, cell: str | None = None) -> Any:
        """Run the call, and say whether its results can be trusted: a sentence for each check.

        Which equation made the first NaN, which line loses digits, what JAX does without a word
        (keys used twice, clamped indices, zero gradients), and what the values hold:

            %%check
            step(params, batch)

            %check --numerics step(params, batch)
            %check --grad loss(params, x)

        In Python:  jaxlens.check(step, params, batch)
        """
        return self._look(self.check, line, cell)

    @line_cell_magic
    @no_var_expand
    @says_what_it_needs
    def nan(self, line: str, cell: str | None = None) -> Any:
        """Run the call once, and say which equation made the first NaN or infinity, and why.

        It is `%%check --nan`, and takes the same options:

            %%nan
            step(params, batch)

            %nan --grad loss(params, x)

        In Python:  jaxlens.first_nan(step, params, batch)
        """
        if line.strip() in ("-h", "--help"):
            print(cleandoc(self.nan.__doc__ or ""))
            return None
        return self._look(self.check, f"--nan {line}", cell)

    def _look(self, verb: Any, line: str, cell: str | None) -> Any:
        """Runs a magic; returns the value of a line magic's expression."""
        from jaxlens.notebook.magics.magic_line import help_of, read, stored

        magic = read(verb, line, cell)
        if magic.help:
            print(help_of(verb, magic))
            return None
        with of_the_user(self.shell):
            if "against" in magic.show:
                magic.show["against"] = stored(self.shell.user_ns, magic.show["against"])
            return self._looking(magic, cell).run()

    def _looking(self, magic: "MagicLine", cell: str | None) -> "Looking":
        """Returns the run of a cell, or of the statement behind a line magic, not yet started."""
        # Imported by the first magic, not by %load_ext.
        from jaxlens.notebook.magics import warm_up
        from jaxlens.notebook.magics.look import Looking

        if self.in_html:
            warm_up.start()
        code = self.read_code(magic.magic, cell, magic.expression)
        self._progress.look_begins()

        def show(view: "View[Any]") -> None:
            if magic.take.o:
                self.shell.user_ns[magic.take.o] = view
                remember_name(magic.take.o)
            self.display(view, full=bool(magic.show.get("full")), rest="--full")
            if view.capture is not None and len(magic.take.target) < 2:  # one may not compile
                remember(view.capture, magic.verb, magic.show)

        return Looking(self.shell, magic, code, show, cell, self._progress.previewed)
