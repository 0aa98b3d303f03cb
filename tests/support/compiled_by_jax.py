"""The program that JAX itself compiles for a call: the reference for captures."""

import difflib
import re
import tempfile
from itertools import islice
from pathlib import Path

import jax
from jax._src import compiler
from jaxlib import _hlo

_OPTIMISED = "*after_optimizations.txt"


class Executables:
    """Texts of the optimised programs that JAX compiles while a block runs.

    JAX's own compile is heard where all compiles pass by, and XLA dumps what it made: from 0.12
    on, an executable prints tuple elements and shardings in another way than dumps do.
    """

    def __enter__(self):
        self.texts: list[str] = []
        self._compile = compiler.compile_or_get_cached
        compiler.compile_or_get_cached = self._heard
        return self

    def _heard(self, backend, module, devices, options, *rest):
        with tempfile.TemporaryDirectory() as folder:
            options.executable_build_options.debug_options.xla_dump_to = folder
            executable = self._compile(backend, module, devices, options, *rest)
            self.texts += [path.read_text() for path in Path(folder).glob(_OPTIMISED)]
        return executable

    def __exit__(self, *_):
        compiler.compile_or_get_cached = self._compile


def ran(f, args, kwargs):
    """The program that a call runs: calls the function and returns the last compiled program.

    Those before it are of single operations, which cut or convert arguments.
    """
    with Executables() as made:
        jax.block_until_ready(f(*args, **kwargs))
    assert made.texts, "the call compiled nothing"
    return made.texts[-1]


def fingerprint(text):
    """XLA's own text of a program without names and metadata, and the values of its constants.

    Its first line says what goes in and out, and what is donated. Constants that are left out of
    the text are read as any numbers, so their values are those of the text.
    """
    values = sorted(re.findall(r"= \S+ constant\((.*?)\)", text))
    again = _hlo.hlo_module_from_text(text).to_string(_hlo.HloPrintOptions.fingerprint())
    return "\n".join([re.sub(r"\bconstant\(.*?\)", "constant", again), *values])


def difference(shown, run):
    """The first lines in which two programs differ, "" where they are the same program."""
    before, after = fingerprint(run), fingerprint(shown)
    if before == after:
        return ""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "run", "shown", n=0)
    return "\n".join(line[:300] for line in islice(lines, 30))
