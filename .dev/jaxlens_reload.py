"""An IPython extension that imports jaxlens again, before a cell runs, when a file of it changed.

`%autoreload` replaces functions and keeps the rest: constants that other modules have imported by
name, what is cached, and the scripts and styles that are read once. Here all modules go, and come
back; what a notebook has stored of jaxlens before stays of the old classes.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell


def of_jaxlens(name: str) -> bool:
    return name == "jaxlens" or name.startswith("jaxlens.")


def files(folder: Path) -> dict[Path, int]:
    """When each file of the package was last written."""
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*.*") if p.suffix != ".pyc"}


def import_again(shell: InteractiveShell) -> None:
    shell.extension_manager.unload_extension("jaxlens")
    for name in filter(of_jaxlens, list(sys.modules)):
        del sys.modules[name]
    importlib.invalidate_caches()
    shell.extension_manager.load_extension("jaxlens")
    for name, value in shell.user_ns.items():
        if isinstance(value, ModuleType) and of_jaxlens(value.__name__):
            shell.user_ns[name] = importlib.import_module(value.__name__)
    print("jaxlens has changed, and was imported again.")


def load_ipython_extension(shell: InteractiveShell) -> None:
    import jaxlens

    folder = Path(jaxlens.__file__).parent
    known = files(folder)

    def before_cell(info: ExecutionInfo) -> None:
        nonlocal known
        if (now := files(folder)) != known:
            known = now
            import_again(shell)

    shell.events.register("pre_run_cell", before_cell)
    shell.extension_manager.load_extension("jaxlens")
