"""Python imports this file at the start of each process that a recorded job starts.

Its folder is on PYTHONPATH there, where it hides a `sitecustomize` of the user's, which it imports.
Whatever fails must not reach the process, which may be of another Python.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module

if __name__ == "sitecustomize":  # as Python's start imports it
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    with suppress(Exception):
        from jaxlens.jobs.record.record import follow

        follow()
    this = sys.modules.pop(__name__)
    try:
        import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)
