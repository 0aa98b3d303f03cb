"""`%%recompiles` and `%%norecompile`: run a whole cell, and log what JAX compiles in it."""

from typing import Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import parser_on_use
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, WholeCellMagics, check_name


@magics_class
class WatchMagics(WholeCellMagics):
    """`%%recompiles` and `%%norecompile`."""

    @line_cell_magic
    @no_var_expand
    @parser_on_use
    @argument("-o", default="", metavar="NAME", help="store the log in a variable")
    @HELP
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
        options, rest = self.options_of(self.recompiles, line, cell)
        if options.help:
            return self.print_help(self.recompiles, "recompiles")
        check_name(options.o, "log")
        with of_the_user(self.shell):
            code = self.read_code("%recompiles", cell, rest)
            from jaxlens.watches import RecompileLog  # imports JAX, which %load_ext does not

            with RecompileLog(where="in this cell" if cell else "") as log:
                if options.o:
                    self.shell.user_ns[options.o] = log
                try:
                    return self.run_whole(code, cell)
                finally:
                    log.__exit__()
                    self.display(log.answer)

    @line_cell_magic
    @no_var_expand
    @parser_on_use
    @argument("n", nargs="?", type=int, default=0, metavar="N", help="compiles that may happen")
    @argument("--operations", action="store_true", help="count JAX's own operations too")
    @HELP
    def norecompile(self, line: str, cell: str | None = None) -> Any:
        """Run the cell, and fail if anything is compiled in it, or more than N functions are.

        What the cell did stays done; the error says in one line what compiled, and why.

            %%norecompile
            params = step(params, batch)      compiled before: nothing may compile now

        In one line, which gives the value:  params = %norecompile 1 step(params, batch)
        In Python, for tests too:  with jaxlens.assert_compiles(0): ...
        """
        options, rest = self.options_of(self.norecompile, line, cell)
        if options.help:
            return self.print_help(self.norecompile, "recompiles")
        magic = "%norecompile" if cell is None else "%%norecompile"
        if options.n < 0:
            raise OptionError(f"{magic} takes a count of 0 or more, got {options.n}")
        with of_the_user(self.shell):
            code = self.read_code(magic, cell, rest)
            from jaxlens.watches import RecompileLog, check  # imports JAX, which %load_ext does not

            with RecompileLog() as log:
                result = self.run_whole(code, cell)
                log.__exit__()
                check(log.log, options.n, options.operations)
        return result
