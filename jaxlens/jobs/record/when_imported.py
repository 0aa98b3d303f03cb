"""Runs a function once a package is imported.

A recording begins before the script does, and must not import JAX itself: JAX reads settings such
as `JAX_PLATFORMS` when it is imported, which the script may set first.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> Callable[[], None]:
    """Runs `then` now if the package is imported, else right after its import.

    Args:
        name: The package, such as "jax".
        then: The function; what it raises goes to the importing statement.

    Returns:
        A function that cancels the wait.
    """
    if name in sys.modules:
        then()
        return lambda: None
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    return finder.cancel


class _Finder(MetaPathFinder):
    """Finds one package by the other finders, and runs a function after it."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def cancel(self) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        self.cancel()
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                self._then()

            spec.loader.exec_module = executed  # type: ignore[method-assign]  # of this loader
        return spec
