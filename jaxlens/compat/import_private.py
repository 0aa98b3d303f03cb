"""Imports private modules of JAX for this folder, with a result for names that are gone."""

import importlib
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Read = TypeVar("Read", bound=Callable[..., Any])


def private(name: str) -> Any:
    """Imports a module of `jax._src` by name.

    Gone: ImportError, which callers catch.
    """
    name = f"jax._src.{name}"
    return sys.modules.get(name) or importlib.import_module(name)


def when_gone(result: Any, *errors: type[Exception]) -> Callable[[Read], Read]:
    """Makes a function return `result` when gone: if a private name that it reads is missing.

    Args:
        result: What the function returns then.
        errors: Exceptions that mean the same, besides ImportError and AttributeError.
    """
    gone: tuple[type[Exception], ...] = (ImportError, AttributeError, *errors)

    def decorate(read: Read) -> Read:
        @wraps(read)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return read(*args, **kwargs)
            except gone:
                return result

        return guarded  # type: ignore[return-value]

    return decorate
