"""How a chapter runs: it prints its examples and tries its exercise. You need not read this.

Examples stand in docstrings, behind `>>>`, with the result below. So do the checks of an exercise.
"""

import io
import sys
from contextlib import redirect_stdout
from doctest import DocTestFinder
from pathlib import Path
from types import ModuleType

package = "lesson"
if not __package__:  # a chapter is run by its path: the folder becomes the package `lesson`
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [str(Path(__file__).parent)]


def run(name):
    """Runs the examples of a chapter in the order of the file, and then tries its exercise."""
    found = DocTestFinder(exclude_empty=True).find(sys.modules[name], name)
    for test in sorted((test for test in found if test.examples), key=lambda test: test.lineno):
        exercise = test.docstring.startswith("Exercise")
        print(f"\n---- {test.name.partition('.')[2]}")
        if exercise:
            print("Exercise:", verdict(test))
        for example in [] if exercise else test.examples:
            print(">>>", example.source.rstrip().replace("\n", "\n... "))
            try:
                exec(compile(example.source, "<example>", "single"), test.globs)
            except ImportError as error:
                print(f"(not run: {error})")


def verdict(test):
    """Says in one line whether an exercise is solved, and if it is not, what is missing."""
    for example in test.examples:
        out, line, wanted = io.StringIO(), flat(example.source), flat(example.want)
        try:
            with redirect_stdout(out):
                exec(compile(example.source, "<exercise>", "single"), test.globs)
        except Exception as error:
            return f"not solved yet: `{line}` raises {type(error).__name__}: {error}"
        if flat(out.getvalue()) != wanted:
            return f"not solved yet: `{line}` gives {flat(out.getvalue())}, and must give {wanted}"
    return "solved."


def flat(text):
    """A text in one line."""
    return " ".join(text.split())
