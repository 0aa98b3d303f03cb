"""Imports private modules of JAX, for the files of this folder."""

import importlib
from typing import Any


def private(name: str) -> Any:
    """Imports a module of `jax._src` by name.

    Gone: ImportError, which callers catch.
    """
    return importlib.import_module(f"jax._src.{name}")
