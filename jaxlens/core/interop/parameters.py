"""Parameters of JAX's equations: a rule reads each, or it says nothing, or it is refused by name.

A rule reads the parameters that it has as keywords. Else a parameter that changes what is computed
would be dropped in silence, and the number be wrong.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any

from jaxlens.core.interop.operations import SCATTERS

# How, where and under which name; what is computed is the same.
_ASIDE = set(
    "accuracy precision sharding out_sharding "
    "ctx_mesh donated_invars in_layouts in_shardings inline keep_unused out_layouts out_shardings "
    "_split_transpose ft_in ft_out update_consts "
    "impl".split()  # of keys: it is in their type, which is compared
)
_OF_ANY = {  # of rules that take any keyword, as those of functions of elements
    "conj": "input_dtype",
    "conv_general_dilated": "batch_group_count dimension_numbers feature_group_count lhs_dilation "
    "padding preferred_element_type rhs_dilation window_strides",
    "gather": "fill_value indices_are_sorted slice_sizes unique_indices",
    "integer_pow": "y",
    "round": "rounding_method",
    **dict.fromkeys(SCATTERS, "indices_are_sorted unique_indices"),
}


@cache
def _keywords(rule: Callable[..., Any]) -> set[str]:
    parameters = signature(rule).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}


def taken(name: str, rule: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an equation that its rule reads.

    Raises:
        ValueError: Another says something about what is computed.
    """
    own = _keywords(rule).union(_OF_ANY.get(name, "").split())
    for key in sorted(params.keys() - own - _ASIDE):
        value = params[key]
        if value is not None and value is not False and value != ():
            raise ValueError(f"has no {name} with {key}={value!r:.60}.")
    return {key: value for key, value in params.items() if key in own}
