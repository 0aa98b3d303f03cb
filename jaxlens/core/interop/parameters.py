"""Parameters of JAX's equations: a rule reads each, or it says nothing, or it is refused by name.

A rule reads the parameters that it has as keywords. Else a parameter that changes what is computed
would be dropped in silence, and the number be wrong.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any

# How, where and under which name; what is computed is the same.
_ASIDE = set(
    "accuracy precision sharding out_sharding "
    "ctx_mesh donated_invars in_layouts in_shardings inline keep_unused out_layouts out_shardings "
    "_split_transpose ft_in ft_out update_consts "
    "impl".split()  # of keys: it is in their type, which is compared
)
_OF_ANY = {"integer_pow": "y"}  # of rules that take any keyword, as those of elements


class UnreadParameterError(ValueError):
    """A parameter says something about what is computed that a rule does not read."""


@cache
def _keywords(rule: Callable[..., Any]) -> set[str]:
    parameters = signature(rule).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}


def taken(name: str, rule: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an equation that its rule reads.

    Raises:
        UnreadParameterError: Another says something about what is computed.
    """
    own = _keywords(rule).union(_OF_ANY.get(name, "").split())
    for key in sorted(params.keys() - own - _ASIDE):
        value = params[key]
        if value is not None and value is not False and value != ():
            raise UnreadParameterError(f"has no {name} with {key}={value!r:.60}.")
    return {key: value for key, value in params.items() if key in own}
