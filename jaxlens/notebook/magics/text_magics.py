"""`%%stablehlo` and `%%hlotext`: a program's text in a cell, changed, compiled and run."""

from typing import Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import parser_on_use
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, WholeCellMagics, check_name

_RUN = argument("--run", type=int, default=10, metavar="N", help="run both so often; 0: not at all")
_STORE = argument("-o", default="", metavar="NAME", help="store the comparison in a variable")
_NAME = argument("name", nargs="?", default="", help="a variable with a Capture, or -o's view")


@magics_class
class TextMagics(WholeCellMagics):
    """`%%stablehlo` and `%%hlotext`."""

    @line_cell_magic
    @no_var_expand
    @parser_on_use
    @_NAME
    @_RUN
    @_STORE
    @HELP
    def stablehlo(self, line: str, cell: str | None = None) -> Any:
        """Change a program's StableHLO: compile it, run both on the same arguments, compare.

        The line form puts the text of a capture into a new cell, and runs nothing:

            cap = jaxlens.capture(step, w, x)
            %stablehlo cap

        The cell form compiles the text, and runs it and the original:

            %%stablehlo cap
            module @jit_step ...

        In Python:    jaxlens.edit(cap, "stablehlo"), and with the changed text
        """
        return self._edit(self.stablehlo, "stablehlo", line, cell)

    @line_cell_magic
    @no_var_expand
    @parser_on_use
    @_NAME
    @argument("--optimized", action="store_true", help="the text after XLA's passes")
    @_RUN
    @_STORE
    @HELP
    def hlotext(self, line: str, cell: str | None = None) -> Any:
        """Change a program's HLO: compile it, run both on the same arguments, compare.

        The line form puts the text of a capture into a new cell, and runs nothing. With
        --optimized it is the text after XLA's passes, which is compiled as it is written:

            %hlotext --optimized cap

        The cell form compiles the text, and runs it and the original:

            %%hlotext cap
            HloModule jit_step ...

        In Python:    jaxlens.edit(cap, "hlo"), and with the changed text
        """
        return self._edit(self.hlotext, "hlo", line, cell)

    def _edit(self, magic: Any, stage: str, line: str, cell: str | None) -> Any:
        """Puts a text into a new cell, or compiles and runs the text of this one."""
        options, rest = self.options_of(magic, line, cell)
        if options.help:
            print(magic.getdoc())
            return None
        check_name(options.o, "comparison")
        name = options.name or rest
        with of_the_user(self.shell):
            cap = self._capture(magic.__name__, name)
            if cell is None:
                stage = "optimized" if stage == "hlo" and options.optimized else stage
                text = jaxlens.edit(cap, stage)
                self.shell.set_next_input(f"%%{magic.__name__} {name}\n{text.strip()}")
                return None
            # The first line is the magic's, so that a parser's error has the line of the cell.
            edited = jaxlens.edit(cap, stage, f"\n{cell}", run=options.run)
            if options.o:
                self.shell.user_ns[options.o] = edited
            return edited

    def _capture(self, magic: str, name: str) -> Any:
        from jaxlens.captures import Capture  # not imported by %load_ext
        from jaxlens.views.view import View

        value = self.shell.user_ns.get(name)
        found = value.capture if isinstance(value, View) else value
        if not isinstance(found, Capture):
            got = f"{name} holds {type(value).__name__}" if value is not None else repr(name)
            raise OptionError(
                f"%{magic} takes the name of a Capture, got {got}: cap = jaxlens.capture(f, x), "
                f"then %{magic} cap"
            )
        return found
