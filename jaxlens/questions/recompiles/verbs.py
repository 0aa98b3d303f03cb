"""The verb on the cache key of a call."""

from typing import Any

from jaxlens.captures import Capture
from jaxlens.capturing import Function, is_program
from jaxlens.errors import OptionError
from jaxlens.ir.compile_log import CallKey
from jaxlens.views.answer import Answer


def key(f: Function, /, *args: Any, **kwargs: Any) -> Answer[CallKey]:
    """Returns the key by which JAX's caches look up a call, and whether it would hit.

    Nothing is traced, executed or compiled, and no cache entry is made.

    Args:
        f: A function; if it is not jitted, the key is that of `jax.jit(f)`.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.hit` (None if it cannot be known), `.layer` (the first cache that misses:
        "trace" or "compile"), `.reasons` (differences to the nearest earlier key) and `.parts`.

    Raises:
        OptionError: `f` is a Capture or an existing program, and not a function.
    """
    from jaxlens.keys.core_keys import call_key
    from jaxlens.program.call_key import key_report
    from jaxlens.questions.recompiles.view import key_document

    if isinstance(f, Capture) or is_program(f):
        raise OptionError(
            "a capture has no cache key, its call has: jaxlens.key(f, x) takes the function and "
            "its arguments"
        )
    key = call_key(f, args, kwargs)
    return Answer(None, lambda: key_document(key), lambda: key_report(key), lambda: key)
