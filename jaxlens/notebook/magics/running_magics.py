"""`%%recompiles`, `%%timeline` and `%arrays`: the process as it runs."""

from typing import Any

from IPython.core.magic import line_cell_magic, line_magic, magics_class

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.magics import lazy_magic
from jaxlens.notebook.magics.tracebacks import of_the_user
from jaxlens.notebook.magics.whole_cell import HELP, STORE, WholeCellMagics


@magics_class
class RunningMagics(WholeCellMagics):
    """`%%recompiles`, `%%timeline` and `%arrays`."""

    @lazy_magic(line_cell_magic)
    @STORE
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
        if options is None:
            return None
        with of_the_user(self.shell):
            code = self.read_code("%recompiles", cell, rest)
            from jaxlens.questions.recompiles.verbs import RecompileLog  # which imports JAX

            with RecompileLog(where="in this cell" if cell else "") as log:
                self.store(options, log)
                try:
                    return self.run_whole(code, cell)
                finally:
                    log.__exit__()
                    self.display(log)

    @lazy_magic(line_cell_magic)
    @STORE
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
        if options is None:
            return None
        with of_the_user(self.shell):
            code = self.read_code("%timeline" if cell is None else "%%timeline", cell, rest)
            from jaxlens.questions.timeline.verbs import answer, recording  # which import JAX

            with recording() as run:
                try:
                    return self.run_whole(code, cell)
                finally:
                    run.__exit__()
                    shown = answer(run.timeline, "cell" if cell is not None else "line")
                    self.store(options, shown)
                    self.display(shown)

    @lazy_magic(line_magic)
    @STORE
    @HELP
    def arrays(self, line: str) -> None:
        """What lives on each device, and what grew? Show the live arrays, and who holds them.

        Each array has the name that leads to it, such as params['w']. Deleted and donated arrays
        do not count. The second look says what is new and what is gone since the first:

            %arrays

        In Python:    jaxlens.arrays()
        """
        options, rest = self.options_of(self.arrays, line)
        if options is None:
            return
        if rest:
            raise OptionError(f"%arrays takes no code, got {rest!r}: %arrays alone looks")
        from jaxlens.questions.arrays.verbs import arrays  # imports JAX, which %load_ext does not

        answer = arrays(self.shell.user_ns)
        self.store(options, answer)
        self.display(answer)
