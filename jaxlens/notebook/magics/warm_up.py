"""Loads what a process's first drawing needs in a thread, while the user's function is traced.

Loading Graphviz and bundling the page's scripts take some 0.1 s once per process. Errors are
ignored here: they occur again, and are reported, at first use.
"""

import threading
from contextlib import suppress
from functools import cache

from jaxlens.render.graph import graphviz_run
from jaxlens.render.html import assets


@cache
def start() -> threading.Thread:
    """Starts the thread, once per process, and returns it."""
    thread = threading.Thread(target=_get_ready, name="jaxlens ready", daemon=True)
    with suppress(RuntimeError):  # a browser has no threads
        thread.start()
    return thread


def _get_ready() -> None:
    with suppress(Exception):
        graphviz_run.load()
    assets.scripts(("viewer", "graph", "glossary"))
    assets.scripts(("viewer", "graph", "glossary", "list"))
