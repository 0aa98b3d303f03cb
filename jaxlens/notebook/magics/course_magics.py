"""`%%puzzle`, `%hint`, `%reveal`, `%%predict` and `%glossary`: the course in a notebook."""

from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from jaxlens.errors import OptionError
from jaxlens.notebook.magics.tracebacks import of_the_user

if TYPE_CHECKING:
    from jaxlens.views.view import View  # not imported by %load_ext


@magics_class
class CourseMagics(Magics):
    """The magics of the course."""

    @cell_magic
    @no_var_expand
    def puzzle(self, line: str, cell: str) -> "View":
        """Judge this cell as the answer to a puzzle of the course.

        The cell runs once, in your namespace. Then jaxlens asks JAX and XLA about what it
        defined, and says whether the puzzle is solved, and what it looked up. A puzzle of
        your own JAX begins with the names that `my_jax.py` defines so far, and is added to it.

            %%puzzle 7.1
            def epochs(data, w): ...

        A hint:       %hint 7.1        (three, each more specific)
        A solution:   %reveal 7.1      (the puzzle then counts no more for your score)
        In Python:    jaxlens.course.check("7.1", {"epochs": epochs})
        """
        from jaxlens import course
        from jaxlens.course import own
        from jaxlens.course.library import puzzle
        from jaxlens.course.namespace import bound
        from jaxlens.notebook.cell import run_cell as cells  # not imported by %load_ext

        id = _one(line, "%%puzzle", "7.1")
        chosen = puzzle(id)
        names = self.shell.user_ns
        with of_the_user(self.shell):
            code = cells.read_cell(self.shell, cell)
            before = own.names_before(chosen)
            names.update(before)
            try:
                cells.run(self.shell, code, code.body)
            except Exception as error:
                kind = type(error).__name__
                print(f"Puzzle {id} is not solved. The cell raised {kind} as it ran; %hint {id}")
                raise
        given = before.keys() | bound(code.body)
        outcome = course.check(id, {name: names[name] for name in given if name in names})
        if outcome.solved and chosen.saves:
            try:
                own.save(chosen, cell)
            except OSError as error:
                print(f"{own.FILE} could not be written here ({error.strerror}); copy the cell")
        return outcome

    @line_magic
    def hint(self, line: str) -> Any:
        """The next hint of a puzzle: %hint 7.1; of three, each is more specific."""
        from jaxlens import course

        return course.hint(_one(line, "%hint", "7.1"))

    @line_magic
    def reveal(self, line: str) -> Any:
        """A solution of a puzzle: %reveal 7.1; it counts no more for your score."""
        from jaxlens import course

        return course.reveal(_one(line, "%reveal", "7.1"))

    @line_magic
    @no_var_expand
    def glossary(self, line: str) -> "View":
        """What a word of a program means: %glossary reduce-window, %glossary weak type."""
        from jaxlens import api

        if not line.strip():
            raise OptionError("%glossary takes a word, as in %glossary thunk; got none")
        return api.glossary(line)

    @cell_magic
    @no_var_expand
    def predict(self, line: str, cell: str) -> "View":
        """Answer a question of the course, then see what the compiler says.

            %%predict 1.a
            6

        With `...` in place of the answer the question is shown.
        """
        from jaxlens import course

        id = _one(line, "%%predict", "1.a")
        lines = [text for text in cell.splitlines() if text.strip() and text.strip()[0] != "#"]
        answer = lines[0].partition("#")[0].strip() if lines else ""
        return course.predict(id, "" if answer == "..." else answer)


def _one(line: str, magic: str, example: str) -> str:
    words = line.split()
    if len(words) != 1:
        raise OptionError(f"{magic} takes one id, as in {magic} {example}; got {line.strip()!r}")
    return words[0]
