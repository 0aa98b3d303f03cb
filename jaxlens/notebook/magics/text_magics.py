"""`%%edit`: a program's text in a cell, changed, compiled and run."""

from typing import Any

from IPython.core.magic import line_cell_magic, magics_class
from IPython.core.magic_arguments import argument

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import lazy_magic
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, STORE, WholeCellMagics


@magics_class
class TextMagics(WholeCellMagics):
    """`%%edit`."""

    def __init__(self, shell: Any, *rest: Any) -> None:
        super().__init__(shell, *rest)
        self._ipythons = shell.find_line_magic("edit")

    @lazy_magic(line_cell_magic)
    @argument("name", nargs="?", default="", help="a variable with a Capture, or -o's view")
    @argument(
        "--stage",
        default="stablehlo",
        metavar="STAGE",
        help="what %%edit writes: stablehlo, hlo, or optimized, which is compiled as it is written",
    )
    @argument("--run", type=int, default=10, metavar="N", help="run both so often; 0: not at all")
    @STORE
    @HELP
    def edit(self, line: str, cell: str | None = None) -> Any:
        """Change a program's text: compile it, run both on the same arguments, compare.

        The line form puts the text of a capture into a new cell, and runs nothing. Where it
        names no program it is IPython's own %edit.

            cap = jaxlens.capture(step, w, x)
            %edit cap
            %edit --stage optimized cap

        The cell form compiles the text, StableHLO or HLO, and runs it and the original:

            %%edit cap
            module @jit_step ...

        In Python:    jaxlens.edit(cap, "stablehlo"), and with the changed text
        """
        word = line.strip().rpartition(" ")[2]
        if cell is None and word not in ("-h", "--help") and self._program(word) is None:
            return self._ipythons(line)
        options, rest = self.options_of(self.edit, line, cell)
        if options is None:
            return None
        name = options.name or rest
        with of_the_user(self.shell):
            cap = self._program(name)
            if cap is None:
                raise OptionError(
                    f"%%edit takes the name of a Capture, got {name!r}: "
                    "cap = jaxlens.capture(f, x), then %edit cap"
                )
            if cell is None:
                text = jaxlens.edit(cap, options.stage)
                self.shell.set_next_input(f"%%edit {name}\n{text.strip()}")
                return None
            # The first line is the magic's, so that a parser's error has the line of the cell.
            edited = jaxlens.edit(cap, _stage(cell), f"\n{cell}", run=options.run)
            self.store(options, edited)
            return edited

    def _program(self, name: str) -> Any:
        """Returns the program that a variable holds; None for none."""
        from jaxlens.captures import Capture  # not imported by %load_ext
        from jaxlens.views.view import View

        value = self.shell.user_ns.get(name)
        found = value.capture if isinstance(value, View) else value
        return found if isinstance(found, Capture) else None


def _stage(text: str) -> str:
    """Returns the stage of a text by its first line."""
    if not text.lstrip().startswith("HloModule"):
        return "stablehlo"
    from jaxlens.stages.compile.program_text import is_scheduled  # which imports JAX

    return "optimized" if is_scheduled(text) else "hlo"
