"""Names a document's pictures, and the versions of the packages that made it."""

import sys
from collections import Counter
from collections.abc import Mapping

from jaxlens.ir.facts import Target
from jaxlens.render.document import Document, GraphPane, Picture, Tab, walk

_PROGRAMS = ("jaxlens", "jax", "jaxlib")


def pictures(document: Document) -> Mapping[str, GraphPane | Picture]:
    """Returns the drawings and charts by name, in order.

    A chart has its title, a drawing that of its tab; the second of a name ends in " 2".
    """
    found: dict[str, GraphPane | Picture] = {}
    counts: Counter[str] = Counter()
    tabs: list[str] = []
    for step in walk(document.blocks):
        part = step.part
        if isinstance(part, Tab):
            tabs = [*tabs, part.title] if step.move == "enter" else tabs[:-1]
        elif isinstance(part, Picture | GraphPane):
            name = part.title if isinstance(part, Picture) else (tabs or ["Graph"])[-1]
            counts[name] += 1
            found[f"{name} {counts[name]}" if counts[name] > 1 else name] = part
    return found


def versions(target: Target | None = None) -> str:
    """Returns versions: "jaxlens 0.1.0, jax 0.10.2, jaxlib 0.10.2".

    Args:
        target: Target of a capture, whose jax compiled it; None for those that are loaded.
    """
    loaded = {name: getattr(sys.modules.get(name), "__version__", "") for name in _PROGRAMS}
    if target is not None:
        loaded |= {"jax": target.jax, "jaxlib": target.jaxlib}
    return ", ".join(f"{name} {version}" for name, version in loaded.items() if version)
