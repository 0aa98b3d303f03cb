"""Loads and unloads the IPython extension; unloading removes all that loading registered."""

import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from IPython.display import display

from jaxlens import progress
from jaxlens.ir.cells import cells_from
from jaxlens.notebook.magics.complete import matcher
from jaxlens.notebook.magics.course_magics import CourseMagics
from jaxlens.notebook.magics.magics import ProgramMagics
from jaxlens.notebook.magics.running_magics import RunningMagics
from jaxlens.notebook.magics.session_magics import JaxLens
from jaxlens.notebook.magics.text_magics import TextMagics
from jaxlens.notebook.widgets.comm import OutputComms
from jaxlens.notebook.widgets.waiting import CellProgress

_MAGICS = (ProgramMagics, RunningMagics, TextMagics, CourseMagics, JaxLens)
_PLACES = [
    (kind, name) for home in _MAGICS for kind in ("line", "cell") for name in home.magics[kind]
]

_VIEW = ("jaxlens.views.view", "View")  # by name, so that loading imports no view

# Per shell: the magics whose names jaxlens took over (restored by `unload`), the completion
# matcher, the output comms, and the watch.
_Loaded = tuple[dict[tuple[str, str], Any], Any, OutputComms, CellProgress, JaxLens]
_loaded: WeakKeyDictionary[Any, _Loaded]
_loaded = WeakKeyDictionary()
_unloaded: WeakKeyDictionary[Any, tuple[int, bool]]
_unloaded = WeakKeyDictionary()  # per shell: the cell that unloaded, and whether it was watched


def load(shell: Any) -> None:
    """Registers the magics, their completion and the output hooks; a second call does nothing."""
    if shell in _loaded:
        return
    completions = matcher()
    comms = OutputComms(shell)
    cell = CellProgress(shell)
    progress.front_end = cell.front_end
    before = {(kind, name): shell.find_magic(name, kind) for kind, name in _PLACES}
    watch = JaxLens(shell, comms, cell)
    count, is_on = _unloaded.pop(shell, (None, False))
    if count == shell.execution_count:  # %reload_ext
        watch.watch = is_on
    _loaded[shell] = before, completions, comms, cell, watch
    own = (kind(shell, comms, cell) for kind in (ProgramMagics, RunningMagics, TextMagics))
    shell.register_magics(*own, CourseMagics(shell), watch)
    shell.Completer.custom_matchers.append(completions)
    shell.display_formatter.mimebundle_formatter.for_type_by_name(*_VIEW, comms.bundle)
    for event, hook in _hooks(comms, cell, watch):
        shell.events.register(event, hook)
    if "jax" not in sys.modules:  # else with the end of this cell
        watch.begin()
    cells_from(lambda: getattr(shell.compile, "_filename_map", {}))


def _hooks(comms: OutputComms, cell: CellProgress, watch: JaxLens) -> Iterator[tuple[str, Any]]:
    """Yields what is called before and after each cell, in order."""
    yield "pre_run_cell", cell.cell_begins
    for hook in (out_of_memory, comms.cell_done, cell.cell_done, watch.cell_done):
        yield "post_run_cell", hook


def out_of_memory(result: Any) -> None:
    """Shows the answer if a cell ended in XLA's exception for want of memory.

    Args:
        result: IPython's result of the cell; for any other it does next to nothing.
    """
    error = getattr(result, "error_in_exec", None)
    kind = type(error).__name__
    is_served = kind == "ValueError" and str(error).startswith("RESOURCE_EXHAUSTED")  # C++ raises
    if error is None or not (is_served or kind in ("JaxRuntimeError", "XlaRuntimeError")):
        return
    from jaxlens.questions.out_of_memory.verbs import out_of_memory  # not imported by %load_ext

    try:
        view = out_of_memory(error)
        if view is not None:
            display(view.compute())
    except Exception as why:  # the user has an error to read already
        print(f"jaxlens could not look at what ran out of memory: {type(why).__name__}")


def unload(shell: Any) -> None:
    """Removes what `load` registered, and restores the magics that it replaced."""
    if shell not in _loaded:
        return
    before, completions, comms, cell, watch = _loaded.pop(shell)
    _unloaded[shell] = shell.execution_count, watch.watch
    for (kind, name), magic in before.items():
        magics = shell.magics_manager.magics[kind]
        magics.pop(name, None)
        if magic is not None:
            magics[name] = magic
    for magics_type in _MAGICS:
        shell.magics_manager.registry.pop(magics_type.__name__, None)
    shell.configurables[:] = [c for c in shell.configurables if not isinstance(c, _MAGICS)]
    for event, hook in _hooks(comms, cell, watch):
        shell.events.unregister(event, hook)
    watch.stop()
    if (compiling := sys.modules.get("jaxlens.stages.session.compiling")) is not None:
        compiling.forget()
    progress.front_end = None
    shell.display_formatter.mimebundle_formatter.pop(".".join(_VIEW), None)
    cells_from(None)
    comms.close()
    if completions in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(completions)
