"""Gets ready what a process's first picture needs, while the user's function is still traced.

Graphviz has to be loaded and the page's scripts bundled, once a process: some 0.1 s that nobody
waits for if a thread does it meanwhile. What fails here fails again, and is said, where it is used.
"""

import threading
from contextlib import suppress
from functools import cache

from jaxlens.render.graph import graphviz_run
from jaxlens.render.html import assets


@cache
def start() -> threading.Thread:
    """Starts getting ready, once a process."""
    thread = threading.Thread(target=_get_ready, name="jaxlens ready", daemon=True)
    thread.start()
    return thread


def _get_ready() -> None:
    with suppress(Exception):
        graphviz_run.load()
    assets.scripts(("viewer", "graph"))
    assets.scripts(("viewer", "graph", "jaxpr"))
