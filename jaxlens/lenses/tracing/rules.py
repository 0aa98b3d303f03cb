"""What JAX's rules for a primitive do, in a sentence each: derivative, transposition, batching.

`grad` is three steps: the derivative at a point (`jvp`), split into what depends on the inputs
alone (forward) and what is linear in the tangents, then the linear part turned round
(`transpose`), which is the backward pass. Source: "You Only Linearize Once" (Radul et al., 2022,
arXiv:2204.10923). `vmap` rewrites each equation for one more axis. What is said here is held to
what JAX does by a test, which runs each rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_ALONG = "the same equation, one axis more"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one primitive.

    Attributes:
        forward: What `grad` adds to the forward pass, and what is kept.
        backward: What the backward pass does with the cotangent `ct` of the result.
        makes: Primitives that both add, to tell equations of one line apart.
        batch: What `vmap` does.
    """

    forward: str
    backward: str
    makes: frozenset[str] = frozenset()
    batch: str = _ALONG


_KEEPS = "keeps {} for the backward pass"
_SAME = "linear: nothing is kept"


def _scaled(slope: str, *makes: str) -> Rules:
    """A function of each element: the cotangent is multiplied by the slope."""
    return Rules(_KEEPS.format(slope), f"multiplies ct by {slope}", frozenset({"mul", *makes}))


def _linear(backward: str, *makes: str, batch: str = _ALONG) -> Rules:
    return Rules(_SAME, backward, frozenset(makes), batch)


_MOVED = "the same equation, its axes counted past the new one"

RULES: Mapping[str, Rules] = {
    # Functions of each element.
    "sin": _scaled("cos(x)", "cos"),
    "cos": _scaled("-sin(x)", "sin", "neg"),
    "tan": _scaled("1 + tan(x)²", "integer_pow", "add", "square"),
    "tanh": _scaled("1 - tanh(x)²", "sub", "one_minus_square"),
    "exp": _scaled("exp(x), the result itself"),
    "exp2": _scaled("log(2) 2^x", "log"),
    "log": Rules(_KEEPS.format("x"), "divides ct by x", frozenset({"div"})),
    "log1p": Rules(_KEEPS.format("1 + x"), "divides ct by 1 + x", frozenset({"div", "add"})),
    "expm1": _scaled("exp(x)", "add", "exp"),
    "sqrt": Rules(
        _KEEPS.format("1 / (2 sqrt(x))"), "multiplies ct by it", frozenset({"div", "mul"})
    ),
    "rsqrt": _scaled("-1/2 x^(-3/2)", "div"),
    "cbrt": _scaled("cbrt(x) / (3 x)", "div", "cbrt", "integer_pow"),
    "logistic": _scaled("s(x) (1 - s(x))", "sub"),
    "erf": _scaled("2/sqrt(π) exp(-x²)", "exp", "neg", "square", "custom_jvp_call"),
    "abs": _scaled("sign(x)", "sign", "select_n", "ge", "neg"),
    "square": _scaled("2 x"),
    "integer_pow": _scaled("n x^(n-1)", "integer_pow"),
    "pow": _scaled(
        "y x^(y-1), and log(x) x^y for the exponent", "pow", "sub", "log", "select_n", "eq"
    ),
    "atan2": _scaled("y/(x²+y²) and -x/(x²+y²)", "div", "square", "add", "neg", "integer_pow"),
    "asin": _scaled("1 / sqrt(1 - x²)", "rsqrt", "sub", "square", "one_minus_square"),
    "acos": _scaled("-1 / sqrt(1 - x²)", "rsqrt", "sub", "square", "neg", "one_minus_square"),
    "atan": Rules(
        _KEEPS.format("1 + x²"),
        "divides ct by 1 + x²",
        frozenset({"div", "square", "add", "integer_pow", "mul"}),
    ),
    "sinh": _scaled("cosh(x)", "cosh"),
    "cosh": _scaled("sinh(x)", "sinh"),
    "max": _scaled(
        "1 where this side is the larger, 1/2 where both are equal", "select_n", "eq", "gt", "div"
    ),
    "min": _scaled(
        "1 where this side is the smaller, 1/2 where both are equal",
        "select_n",
        "eq",
        "gt",
        "lt",
        "div",
    ),
    "mul": Rules(
        _KEEPS.format("each factor that the other needs"),
        "multiplies ct by the other factor",
        frozenset({"mul"}),
    ),
    "div": Rules(
        _KEEPS.format("the divisor, and for its own derivative -x/y²"),
        "divides ct by the divisor",
        frozenset({"div", "mul", "neg", "integer_pow", "square"}),
    ),
    "add": _linear(
        "hands ct to both sides; a side that was broadcast gets its sum", "reduce_sum", "add_any"
    ),
    "add_any": _linear("hands ct to both sides"),
    "sub": _linear("hands ct to one side and -ct to the other", "neg", "reduce_sum"),
    "neg": _linear("negates ct", "neg"),
    "select_n": Rules(
        _KEEPS.format("which case was chosen"),
        "hands ct to that case, zeros to the others",
        frozenset({"select_n", "broadcast_in_dim"}),
    ),
    "clamp": Rules(
        _KEEPS.format("which elements lay inside"),
        "hands ct to those, zeros to the others",
        frozenset({"select_n", "and", "gt", "lt", "bitwise_and", "ge", "le"}),
    ),
    "convert_element_type": _linear("converts ct back", "convert_element_type"),
    "copy": _linear("hands ct on", "copy"),
    # Whole arrays.
    "dot_general": Rules(
        _KEEPS.format("both factors"),
        "is a dot_general of ct with the other factor, its axes put in order",
        frozenset({"dot_general", "transpose"}),
        "a batch dimension; a factor without the new axis only has more rows or columns",
    ),
    "conv_general_dilated": Rules(
        _KEEPS.format("both inputs"),
        "is a convolution of ct with the flipped kernel, and of the input with ct",
        frozenset({"conv_general_dilated", "rev", "transpose"}),
        "the examples join the batch of the convolution, or its feature groups",
    ),
    "reduce_sum": _linear("spreads ct over the summed axes", "broadcast_in_dim", batch=_MOVED),
    "broadcast_in_dim": _linear("sums ct over the new axes", "reduce_sum", batch=_MOVED),
    "reduce_max": Rules(
        _KEEPS.format("where the largest stand, and how many"),
        "spreads ct over them in equal shares",
        frozenset(
            "eq div reduce_sum mul broadcast_in_dim convert_element_type select_n reduce_and "
            "reshape".split()
        ),
        _MOVED,
    ),
    "reduce_min": Rules(
        _KEEPS.format("where the smallest stand, and how many"),
        "spreads ct over them in equal shares",
        frozenset(
            "eq div reduce_sum mul broadcast_in_dim convert_element_type select_n reduce_and "
            "reshape".split()
        ),
        _MOVED,
    ),
    "reduce_prod": Rules(
        _KEEPS.format("the products of all others"),
        "multiplies ct by them",
        frozenset(
            "mul broadcast_in_dim reduce_prod slice pad concatenate reshape transpose squeeze "
            "cumprod rev".split()
        ),
        _MOVED,
    ),
    "reshape": _linear("reshapes ct back", "reshape", batch=_MOVED),
    "squeeze": _linear("puts the axes of size 1 back", "reshape", "broadcast_in_dim", batch=_MOVED),
    "expand_dims": _linear("takes the axis away", "reshape", "squeeze", batch=_MOVED),
    "transpose": _linear("transposes ct back", "transpose", batch=_MOVED),
    "rev": _linear("reverses ct", "rev", batch=_MOVED),
    "slice": _linear("pads ct with zeros to where the slice was", "pad", batch=_MOVED),
    "pad": _linear(
        "cuts ct to what was padded; the padding value gets the rest, summed",
        "pad",
        "slice",
        "reduce_sum",
        "sub",
        "neg",
        batch=_MOVED,
    ),
    "concatenate": _linear("cuts ct into the pieces", "slice", "split", batch=_MOVED),
    "split": _linear("joins the pieces of ct", "concatenate", batch=_MOVED),
    "gather": Rules(
        "linear in the array: keeps the indices",
        "adds ct at those places of an array of zeros",
        frozenset({"scatter-add", "broadcast_in_dim"}),
        "a gather with one axis of indices more",
    ),
    "scatter-add": Rules(
        "linear: keeps the indices",
        "hands ct to the array, and what lies at the indices to the updates",
        frozenset({"gather"}),
        "a scatter with one axis of indices more",
    ),
    "dynamic_slice": Rules(
        "linear in the array: keeps where it begins",
        "writes ct there into an array of zeros",
        frozenset({"dynamic_update_slice", "broadcast_in_dim", "dynamic_update_slice_add"}),
        "a gather, if each example begins elsewhere",
    ),
    "dynamic_update_slice": Rules(
        "linear: keeps where it begins",
        "hands ct to the array with a hole there, and the piece to the update",
        frozenset({"dynamic_slice", "dynamic_update_slice", "broadcast_in_dim"}),
        "a scatter, if each example begins elsewhere",
    ),
    "cumsum": _linear("sums ct from the other end", "cumsum", batch=_MOVED),
    "sort": Rules(
        _KEEPS.format("the order"),
        "puts ct back into the old order",
        frozenset(
            "iota gather scatter-add broadcast_in_dim sort concatenate lt add select_n".split()
        ),
        _MOVED,
    ),
    # What has no derivative.
    "iota": Rules("a constant", "nothing", batch="made once for all examples"),
    "stop_gradient": Rules("the value as it is", "nothing: ct ends here"),
    "argmax": Rules("an integer: no derivative", "nothing", batch=_MOVED),
    "argmin": Rules("an integer: no derivative", "nothing", batch=_MOVED),
    "sign": Rules("flat: the derivative is 0", "nothing"),
    "floor": Rules("flat: the derivative is 0", "nothing"),
    "ceil": Rules("flat: the derivative is 0", "nothing"),
    "round": Rules("flat: the derivative is 0", "nothing"),
    **{
        name: Rules("no numbers that could change a little: no derivative", "nothing")
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "is_finite")
    },
    # Control flow and calls.
    "cond": Rules(
        "every branch differentiated; a branch keeps what its backward pass needs, zeros for the "
        "others'",
        "a cond over the same index, of the transposed branches",
        frozenset({"cond"}),
        "stays a cond where all examples choose alike; else every branch runs for every example, "
        "and select_n chooses",
    ),
    "scan": Rules(
        "the loop keeps what each step's backward pass needs, stacked",
        "a scan from the last step to the first",
        frozenset({"scan"}),
        "one loop, its carry and inputs with one axis more",
    ),
    "while": Rules(
        "forward mode only: reverse mode would have to keep an unknown number of steps",
        "refused",
        frozenset({"while"}),
        "where examples end at different steps, it runs until the last ends, and select_n keeps "
        "those that are done",
    ),
    "jit": Rules(
        "the body differentiated",
        "a jit of the transposed body",
        frozenset({"jit"}),
        "the body batched",
    ),
    "custom_jvp_call": Rules(
        "the function's own rule in the place of its equations",
        "that rule's linear part, transposed",
    ),
    "custom_vjp_call": Rules("the function's own forward rule", "its own backward rule"),
    "checkpoint": Rules(
        "nothing but the inputs is kept",
        "the body computed again, then its backward pass",
        frozenset({"checkpoint"}),
        "the body batched",
    ),
    "remat2": Rules(
        "nothing but the inputs is kept",
        "the body computed again, then its backward pass",
        frozenset({"checkpoint", "remat2"}),
        "the body batched",
    ),
    "psum": _linear(
        "sums ct over the devices or examples of the axis",
        "psum",
        "pbroadcast",
        batch="a sum over the new axis, if it is the one named",
    ),
}
