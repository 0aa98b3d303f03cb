"""Answers again when a file is saved: JAX stays imported, what the user wrote is imported anew."""

import linecache
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path

from jaxlens.errors import LensError
from jaxlens.ir.spans import describe

_EVERY = 0.2  # seconds between two looks at the files
_States = Mapping[str, tuple[int, int] | None]


def watch(answer: Callable[[], object], file: Path) -> int:
    """Answers at each save of a file, or of a file of the user's that it imports, until Ctrl-C."""
    kept = set(sys.modules)
    sys.dont_write_bytecode = True  # its dates are whole seconds: a second save may seem the first
    states = _states([str(file)])
    try:
        while True:
            try:
                answer()
            except LensError as error:
                print(f"jaxlens: {error}", file=sys.stderr)
            print(f"jaxlens: waits until {file} is saved; Ctrl-C ends", file=sys.stderr)
            states = _saved({str(file), *_users(kept).values()}, states)
            for name in _users(kept):
                del sys.modules[name]
            linecache.checkcache()
    except KeyboardInterrupt:
        return 130


def _saved(files: Set[str], before: _States) -> _States:
    """Returns the states of files once they differ from those before the answer, and rest."""
    last = _states(files)
    known = {**last, **{file: state for file, state in before.items() if file in files}}
    while True:
        time.sleep(_EVERY)
        now = _states(files)
        if now == last and now != known:
            return now
        last = now


def _users(kept: Set[str]) -> dict[str, str]:
    """Returns the files of the modules that the user wrote, by the name of the module."""
    files = {name: getattr(module, "__file__", None) for name, module in [*sys.modules.items()]}
    new = {name: file for name, file in files.items() if file and name not in kept}
    known = {name: describe(file) for name, file in new.items()}
    return {name: new[name] for name, at in known.items() if not (at.library or at.own)}


def _states(files: Iterable[str]) -> _States:
    """Returns time and size of files; None for one that is not there."""
    return {file: _state(file) for file in sorted(files)}


def _state(file: str) -> tuple[int, int] | None:
    try:
        state = Path(file).stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
