"""Calls a function once a module has been imported, in the middle of the code that imports it.

What watches JAX must not import it itself: JAX reads settings such as `JAX_PLATFORMS` when it is
imported, which the user's code may set first.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(name: str, then: Callable[[], None]) -> Callable[[], None]:
    """Calls `then` now if a module is imported, else after its import; returns what cancels that.

    What `then` raises goes to the importing statement.
    """
    if name in sys.modules:
        then()
        return lambda: None
    return AfterImport(name, then).stop


class AfterImport(MetaPathFinder):
    """Waits for the import of one module; nothing of it is left in the module.

    Args:
        name: The module, which is not imported yet.
        then: Called after the import, once.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then
        self._is_finding = False
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Waits no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._is_finding:
            return None
        self._is_finding = True  # so that the other finders are asked
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_finding = False
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module  # of another `AfterImport`, where two wait

            def exec_module(module: ModuleType) -> None:
                loader.exec_module = execute
                execute(module)
                self.stop()
                self._then()

            loader.exec_module = exec_module
        return spec
