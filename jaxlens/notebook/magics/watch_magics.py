"""`%%recompiles`: runs a whole cell, and logs what JAX compiles in it."""

from typing import Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from jaxlens.notebook.magics.magics import parser_on_use
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, WholeCellMagics, check_name


@magics_class
class WatchMagics(WholeCellMagics):
    """`%%recompiles`."""

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
            from jaxlens.questions.recompiles.verbs import (
                RecompileLog,  # imports JAX, which %load_ext does not
            )

            with RecompileLog(where="in this cell" if cell else "") as log:
                if options.o:
                    self.shell.user_ns[options.o] = log
                try:
                    return self.run_whole(code, cell)
                finally:
                    log.__exit__()
                    self.display(log)
