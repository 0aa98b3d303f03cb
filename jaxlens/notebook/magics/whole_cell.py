"""What magics share that run a whole cell, or the statement behind them, as it stands."""

import keyword
from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import argument

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import OutputMagics

if TYPE_CHECKING:
    from jaxlens.notebook.cell.run_cell import ParsedCell  # not imported by %load_ext

HELP = argument("-h", "--help", action="store_true", help="show this and do nothing")
STORE = argument("-o", default="", metavar="NAME", help="store the answer in a variable")


class WholeCellMagics(OutputMagics):
    """Reads a line's options, prints help, and runs a whole cell once."""

    def options_of(self, magic: Any, line: str, cell: str | None = None) -> tuple[Any, str]:
        """Returns the options at the start of a line, and the text behind them.

        With `-h` it prints what the magic answers, how its figures are known, and its options, and
        returns None in place of the options.

        Raises:
            OptionError: There is no such option, or the value of `-o` is no name.
        """
        from jaxlens.notebook.magics.magic_line import parse, split, with_parser
        from jaxlens.questions import about

        called = ("%" if cell is None else "%%") + magic.__name__
        parser = with_parser(magic).parser
        words, rest = split(parser, called, line, alone=cell is not None)
        if cell is not None:
            words, rest = [*words, *rest.split()], ""
        options = parse(parser, called, words)
        if options.help:
            print(*filter(None, (about(magic.__name__), magic.getdoc())), sep="\n\n")
            return None, ""
        name = getattr(options, "o", "")
        if name and (not name.isidentifier() or keyword.iskeyword(name)):
            raise OptionError(f"-o takes a name to store the answer under, got {name!r}")
        return options, rest

    def store(self, options: Any, answer: Any) -> None:
        """Stores an answer under the name of `-o`."""
        if options.o:
            self.shell.user_ns[options.o] = answer

    def run_whole(self, code: "ParsedCell", cell: str | None) -> Any:
        """Runs a whole cell, whose result IPython displays, or a line, and returns its value."""
        from jaxlens.notebook.cell import run_cell as cells  # not imported by %load_ext

        if not code.body:
            return None
        *before, last = code.body
        cells.check(self.shell, code)
        for statement in before:
            cells.run_one(self.shell, code, statement)
        shown = None if cell is None else cells.shows_last(self.shell, cell)
        value = cells.run_last(self.shell, code, last, shown=shown)
        return value if cell is None else None
