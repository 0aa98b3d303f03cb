"""The primitives, each one block: types, StableHLO, tangents, cotangents, batches.

All files of this folder are loaded, as a program of JAX may hold any of their primitives. One that
is not here is JAX's: `interop/guests.py`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
