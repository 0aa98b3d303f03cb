"""The primitives, each one block: types, StableHLO, tangents, cotangents, batches.

All files of this folder are loaded, as a program of JAX may hold any of their primitives. No other
file needs `convolution.py` and `sorting.py`: without them, their primitives are missing.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
