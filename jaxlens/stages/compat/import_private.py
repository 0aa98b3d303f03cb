"""A private module of JAX's by name: what the files of this folder borrow from."""

import importlib
from typing import Any


def private(name: str) -> Any:
    """A module inside `jax._src`.

    Gone: ImportError, which callers catch.
    """
    return importlib.import_module(f"jax._src.{name}")
