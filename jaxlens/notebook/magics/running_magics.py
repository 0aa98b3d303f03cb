"""`%%timeline` and `%arrays`: the process as it runs."""

from typing import Any

from IPython.core.magic import line_cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import parser_on_use
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, WholeCellMagics, check_name


@magics_class
class RunningMagics(WholeCellMagics):
    """`%%timeline` and `%arrays`."""

    @line_cell_magic
    @no_var_expand
    @parser_on_use
    @argument("-o", default="", metavar="NAME", help="store the answer in a variable")
    @HELP
    def timeline(self, line: str, cell: str | None = None) -> Any:
        """Who waits for whom, at which line? Run the cell once, then show it over time.

        All of the cell runs as usual, under JAX's profiler. What follows is how often Python
        waited for the device, at which lines, and for which programs; then the lanes of Python
        and the devices over time.

            %%timeline -o run
            for batch in batches:
                value = predict(params, batch).sum()
                print(float(value))

        In one line, which gives the value:  y = %timeline predict(params, x)
        In Python:    jaxlens.timeline(predict, params, x)
        """
        options, rest = self.options_of(self.timeline, line, cell)
        if options.help:
            return self.print_help(self.timeline, "timeline")
        check_name(options.o, "answer")
        with of_the_user(self.shell):
            code = self.read_code("%timeline" if cell is None else "%%timeline", cell, rest)
            from jaxlens.questions.timeline.verbs import answer, recording  # which import JAX

            with recording() as run:
                try:
                    return self.run_whole(code, cell)
                finally:
                    run.__exit__()
                    shown = answer(run.timeline, "cell" if cell is not None else "line")
                    if options.o:
                        self.shell.user_ns[options.o] = shown
                    self.display(shown)

    @line_magic
    @no_var_expand
    @parser_on_use
    @argument("-o", default="", metavar="NAME", help="store the answer in a variable")
    @HELP
    def arrays(self, line: str) -> None:
        """What lives on each device, and what grew? Show the live arrays, and who holds them.

        Each array has the name that leads to it, such as params['w']. Deleted and donated arrays
        do not count. The second look says what is new and what is gone since the first:

            %arrays

        In Python:    jaxlens.arrays()
        """
        options, rest = self.options_of(self.arrays, line, None)
        if options.help:
            return self.print_help(self.arrays, "arrays")
        check_name(options.o, "answer")
        if rest:
            raise OptionError(f"%arrays takes no code, got {rest!r}: %arrays alone looks")
        from jaxlens.questions.arrays.verbs import arrays  # imports JAX, which %load_ext does not

        answer = arrays(self.shell.user_ns)
        if options.o:
            self.shell.user_ns[options.o] = answer
        self.display(answer)
        return None
