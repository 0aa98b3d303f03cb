"""`%load_ext jaxlens` and back: what is added to the shell, and its removal to the last piece."""

from typing import Any
from weakref import WeakKeyDictionary

from jaxlens.notebook.complete import matcher
from jaxlens.notebook.magics import Lenses

_VERBS = ("jaxpr", "hlo", "compile", "explore")
_PLACES = [(kind, name) for kind in ("line", "cell") for name in _VERBS]

# Per shell: the magics that had our names, to be put back, and our matcher.
_loaded: WeakKeyDictionary[Any, tuple[dict[tuple[str, str], Any], Any]] = WeakKeyDictionary()


def load(shell: Any) -> None:
    """Adds the magics and their completion; loading twice is loading once."""
    if shell in _loaded:
        return
    magics = shell.magics_manager.magics
    ours = matcher()
    _loaded[shell] = {(kind, name): magics[kind].get(name) for kind, name in _PLACES}, ours
    shell.register_magics(Lenses(shell))
    shell.Completer.custom_matchers.append(ours)


def unload(shell: Any) -> None:
    """Takes away what `load` added, and puts back what stood in its place."""
    if shell not in _loaded:
        return
    before, ours = _loaded.pop(shell)
    for (kind, name), magic in before.items():
        held = shell.magics_manager.magics[kind]
        held.pop(name, None)
        if magic is not None:
            held[name] = magic
    shell.magics_manager.registry.pop(Lenses.__name__, None)
    if ours in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(ours)
