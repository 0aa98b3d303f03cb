"""`%%puzzle`, `%hint`, `%reveal`, `%%predict` and `%glossary`: the course in a notebook."""

import re
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    no_var_expand,
)

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.tracebacks import of_the_user

if TYPE_CHECKING:
    from jaxlens.course.check import Judgement
    from jaxlens.views.view import View  # not imported by %load_ext

_HOLE = r"(?m)^ *+\.\.\.(?:  #.*+)?$"


@magics_class
class CourseMagics(Magics):
    """The magics of the course."""

    @cell_magic
    @no_var_expand
    def puzzle(self, line: str, cell: str) -> "Judgement":
        """Judge this cell as the answer to a puzzle of the course.

        The cell runs in another process, with what it needs of your names. There jaxlens asks
        JAX and XLA about what it defined, and says whether the puzzle is solved, and what it
        looked up. What takes too long, or too much memory, is stopped. Otherwise the cell then runs
        here, in your namespace. A puzzle of your own JAX begins with the names that `my_jax.py`
        defines so far, and is added to it.

            %%puzzle 9.1
            def epochs(data, w): ...

        A hint:       %hint 9.1        (three, each more specific)
        A solution:   %reveal 9.1      (the puzzle then counts no more for your score)
        In Python:    jaxlens.course.check("9.1", {"epochs": epochs})
        """
        from jaxlens.course import attempts, own
        from jaxlens.course.judge_process import judge_cell
        from jaxlens.course.library import puzzle
        from jaxlens.course.limits import Beginning
        from jaxlens.notebook.cell import run_cell as cells  # not imported by %load_ext

        id = _one(line, "%%puzzle", "9.1")
        chosen = puzzle(id)
        shell = self.shell
        with of_the_user(shell):
            code = cells.read_cell(shell, cell)
            cells.check(shell, code)
            before = own.names_before(chosen)
            raw = shell.history_manager.input_hist_raw if shell.history_manager else ()
            # This cell may be the last of them.
            above = [text for text in raw if text.partition("\n")[2].strip() != cell.strip()]
            number = getattr(shell.compile, "_filename_map", {}).get(code.file, 0)
            names = shell.user_ns
            verdict = judge_cell(id, cell, above, names, number)
            print(verdict.printed, end="")
            if not verdict.solved and re.search(_HOLE, cell):
                print("A line of the cell is still `...`: write yours in its place.")
            if verdict.ends:
                names.update(before)
                try:
                    with redirect_stdout(Beginning(sys.stdout)):
                        for statement in code.body:
                            cells.run_one(shell, code, statement)
                except Exception as error:
                    kind = type(error).__name__
                    print(
                        f"Puzzle {id} is not solved. The cell raised {kind} as it ran; %hint {id}"
                    )
                    raise
        if cell.strip() != chosen.starter.strip():  # which is nobody's answer
            attempts.note(attempts.Attempt(id, verdict.solved, hints=attempts.shown[id]))
        if verdict.solved and chosen.saves:
            try:
                own.save(chosen, cell)
            except OSError as error:
                print(f"{own.FILE} could not be written here ({error.strerror}); copy the cell")
        return verdict

    @line_magic
    def hint(self, line: str) -> Any:
        """The next hint of a puzzle: %hint 9.1; of three, each is more specific."""
        from jaxlens import course

        return course.hint(_one(line, "%hint", "9.1"))

    @line_magic
    def reveal(self, line: str) -> Any:
        """A solution of a puzzle: %reveal 9.1; it counts no more for your score."""
        from jaxlens import course

        return course.reveal(_one(line, "%reveal", "9.1"))

    @line_magic
    @no_var_expand
    def glossary(self, line: str) -> "View[Any]":
        """What a word of a program means: %glossary reduce-window, %glossary weak type."""
        from jaxlens import api

        if not line.strip():
            raise OptionError("%glossary takes a word, as in %glossary thunk; got none")
        return api.glossary(line)

    @line_cell_magic
    @no_var_expand
    def predict(self, line: str, cell: str | None = None) -> "View[Any]":
        """Answer a question of the course, then see what the compiler says.

            %%predict 1.a
            6

        In one line:  %predict 1.a 6

        With `...` in place of the answer the question is shown. A number may be a word, a sum, or
        have a unit behind it; one of several words may be cut short. `%predict 9` asks three
        questions from the lessons before lesson 9, first those that you had wrong.
        """
        from jaxlens import course

        id, _, behind = line.partition("#")[0].strip().partition(" ")
        if cell is not None:
            id = _one(line, "%%predict", "1.a")
            texts = [text for text in cell.splitlines() if text.strip() and text.strip()[0] != "#"]
            behind = texts[0].partition("#")[0] if texts else ""
        if id.isdecimal() and not behind.strip():
            return course.recall(int(id))
        answer = behind.strip()
        return course.predict(id, "" if answer == "..." else answer)


def _one(line: str, magic: str, example: str) -> str:
    words = line.split()
    if len(words) != 1:
        raise OptionError(f"{magic} takes one id, as in {magic} {example}; got {line.strip()!r}")
    return words[0]
