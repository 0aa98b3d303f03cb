"""Makes the key of a call without calling it: nothing is traced or run, and no entry is added."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlens.ir.compile_log import CallKey
from jaxlens.stages.call.call import open_call
from jaxlens.stages.call.traceable import function_name
from jaxlens.stages.keys.core_keys import CoreKeys
from jaxlens.stages.keys.jax_keys import JaxKeys


def call_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    """Returns the key of `f(*args, **kwargs)`, and whether it is in the caches.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        args: Positional arguments, arrays or `jax.ShapeDtypeStruct`s.
        kwargs: Keyword arguments.
    """
    name = function_name(f)
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the function
    keys: CoreKeys | JaxKeys
    if core is not None and isinstance(f, core.Jitted):
        keys = CoreKeys(f, args, kwargs, name)
    else:
        keys = JaxKeys(open_call(f, tuple(args), dict(kwargs)), name)
    verdict = keys.verdict()
    try:
        parts, defaults = keys.parts()
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        parts, defaults = (), ()
    return CallKey(name, parts, verdict, defaults)
