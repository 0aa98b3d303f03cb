"""`%%recompiles` and `%%norecompile`: run a whole cell, and log what JAX compiles in it."""

import ast
import keyword
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magic_line import parse, split
from jaxlens.notebook.magics.magics import OutputMagics
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.questions.table import RECOMPILES

if TYPE_CHECKING:
    from jaxlens.notebook.cell.run_cell import ParsedCell  # not imported by %load_ext

_HELP = argument("-h", "--help", action="store_true", help="show this and do nothing")


@magics_class
class WatchMagics(OutputMagics):
    """`%%recompiles` and `%%norecompile`."""

    @line_cell_magic
    @no_var_expand
    @magic_arguments()
    @argument("-o", default="", metavar="NAME", help="store the log in a variable")
    @_HELP
    def recompiles(self, line: str, cell: str | None = None) -> Any:
        """Why did it recompile? Run the cell, then show what JAX compiled in it, and why.

        All of the cell runs as usual. What follows is one line for each function that was
        compiled again: the argument responsible, old and new.

            %%recompiles -o log
            for batch in batches:
                params = step(params, batch)

        In one line:  %recompiles step(params, batch)
        In Python:    with jaxlens.recompiles() as log: ...
        """
        options, rest = self._options(self.recompiles, line, cell)
        if options.help:
            return self._help(self.recompiles)
        if options.o and (not options.o.isidentifier() or keyword.iskeyword(options.o)):
            raise OptionError(f"-o takes a name to store the log under, got {options.o!r}")
        with of_the_user(self.shell):
            code = self.read_code("%recompiles", cell, rest)
            from jaxlens.watches import RecompileLog  # imports JAX, which %load_ext does not

            with RecompileLog(where="in this cell" if cell else "") as log:
                if options.o:
                    self.shell.user_ns[options.o] = log
                try:
                    return self._run(code, cell)
                finally:
                    log.__exit__()
                    self.display(log.answer)

    @line_cell_magic
    @no_var_expand
    @magic_arguments()
    @argument("n", nargs="?", type=int, default=0, metavar="N", help="compiles that may happen")
    @argument("--operations", action="store_true", help="count JAX's own operations too")
    @_HELP
    def norecompile(self, line: str, cell: str | None = None) -> Any:
        """Run the cell, and fail if anything is compiled in it, or more than N functions are.

        What the cell did stays done; the error says in one line what compiled, and why.

            %%norecompile
            params = step(params, batch)      compiled before: nothing may compile now

        In one line, which gives the value:  params = %norecompile 1 step(params, batch)
        In Python, for tests too:  with jaxlens.assert_compiles(0): ...
        """
        options, rest = self._options(self.norecompile, line, cell)
        if options.help:
            return self._help(self.norecompile)
        magic = "%norecompile" if cell is None else "%%norecompile"
        if options.n < 0:
            raise OptionError(f"{magic} takes a count of 0 or more, got {options.n}")
        with of_the_user(self.shell):
            code = self.read_code(magic, cell, rest)
            from jaxlens.watches import RecompileLog, check  # imports JAX, which %load_ext does not

            with RecompileLog() as log:
                result = self._run(code, cell)
                log.__exit__()
                check(log.log, options.n, options.operations)
        return result

    def _options(self, magic: Any, line: str, cell: str | None) -> tuple[Any, str]:
        """Returns the options at the start of a line, and the text behind them."""
        called = ("%" if cell is None else "%%") + magic.__name__
        words, rest = split(magic.parser, called, line, alone=cell is not None)
        if cell is not None:
            words, rest = [*words, *rest.split()], ""
        return parse(magic.parser, called, words), rest

    def _help(self, magic: Any) -> None:
        print(f"{RECOMPILES.about}\n\n{magic.__doc__}")

    def _run(self, code: "ParsedCell", cell: str | None) -> Any:
        """Runs a whole cell, whose result IPython displays, or a line, and returns its value."""
        from jaxlens.notebook.cell import run_cell as cells  # not imported by %load_ext

        if not code.body:
            return None
        *before, last = code.body
        cells.run(self.shell, code, tuple(before))
        shown = cell is None or self.shell.ast_node_interactivity.startswith("last")
        if not isinstance(last, ast.Expr) or not shown:
            cells.run(self.shell, code, (last,))
            return None
        value = cells.evaluate(self.shell, code, last.value)
        if cell is None:
            return value
        if not cells.is_quiet(cell):
            self.shell.displayhook(value)
        return None
