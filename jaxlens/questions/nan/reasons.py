"""Why an equation produced a NaN or an infinity, and what avoids it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.questions.nan.records import EquationValues, ValueRange


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an equation produced such elements, and what avoids it.

    Attributes:
        text: What happened: "the logarithm of a negative number".
        cure: What to write instead; "" where nothing general is known.
        can_be_tried: Whether a guard of the equation does what the cure would.
    """

    text: str
    cure: str = ""
    can_be_tried: bool = True


@dataclass(frozen=True, slots=True)
class DerivativeRule:
    """How an equation of a derivative is known.

    Attributes:
        where: Of what it is the derivative, and where that is not finite.
        cure: What avoids it.
        opcodes: The primitives that the rule divides with.
        half: Whether they are known by a first operand of 0.5.
        backward: Whether they are known by being in a backward pass; without either, always.
    """

    where: str
    cure: str
    opcodes: tuple[str, ...]
    half: bool = False
    backward: bool = False


_KEEP_POSITIVE = "keep the argument of {} positive, as with jnp.maximum(x, tiny)"
_DIVISOR = "divide by jnp.where(d == 0, 1, d), and choose the result with another jnp.where"
_SAFE = (
    "give the function a safe argument too, with a second jnp.where inside: "
    "jnp.where(c, f(jnp.where(c, x, 1.0)), y)"
)
_BASE = "take the power of jnp.where(x == 0, 1, x), and choose the result with another jnp.where"
_ROOT = (
    "take the root of a safe argument, and choose with another jnp.where: "
    "jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0)"
)
_ARCTAN2 = (
    "give arctan2 a safe argument too, with a second jnp.where inside: "
    "jnp.where(c, jnp.arctan2(y, jnp.where(c, x, 1.0)), 0.0)"
)
_LOGARITHMS = (
    "add logarithms instead of multiplying, with jax.nn.log_softmax for the log of a softmax, or "
)
_KEEP_INSIDE = "keep its argument away from there: jnp.clip(x, -1 + eps, 1 - eps)"
_MASK = (
    "where an infinity is a mask, see that no row is masked whole, or mask with a large finite "
    "number such as -1e30"
)
_EXP = (
    "where a sum follows, subtract the maximum first, as jax.nn.softmax and jax.nn.logsumexp do; "
    "else bound the argument with jnp.minimum"
)
_WIDER = "compute in float32, or scale the values first"
_WRITTEN = "it is written in the program"
LITERAL = {"nan": Reason(_WRITTEN), "inf": Reason(_WRITTEN, _MASK)}
"""The reason of a literal, by how it is written."""
_IN_KERNEL = (
    "its kernel computes it, or leaves these elements unwritten, which are NaN where Pallas "
    "interprets the kernel, as is what it reads beyond an array's end"
)
ZERO_AT = {"log": 0, "rsqrt": 0, "div": 1, "pow": 0}
"""The operand that is at fault if it is 0, by primitive."""
_DIVIDES = ("div",)
DERIVED = {
    "sqrt": DerivativeRule("the square root at 0", _ROOT, _DIVIDES, half=True, backward=True),
    "log": DerivativeRule(
        "the logarithm at 0", _KEEP_POSITIVE.format("log"), _DIVIDES, backward=True
    ),
    "log1p": DerivativeRule("log1p at -1", _KEEP_POSITIVE.format("1 + x"), _DIVIDES, backward=True),
    "pow": DerivativeRule("a power at 0", _BASE, ("pow",)),
    "acos": DerivativeRule("arccos at 1 or -1", _KEEP_INSIDE, ("rsqrt", "div")),
    "asin": DerivativeRule("arcsin at 1 or -1", _KEEP_INSIDE, ("rsqrt", "div")),
    "atanh": DerivativeRule("arctanh at 1 or -1", _KEEP_INSIDE, _DIVIDES),
    "atan2": DerivativeRule("arctan2 at (0, 0)", _ARCTAN2, _DIVIDES),
}
"""By primitive, the equations that its derivative has besides it."""
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def reason(
    opcode: str,
    values: EquationValues,
    dtype: str,
    *,
    untaken_where_line: str = "",
    discarded_by_where_line: str = "",
    derived: str = "",
    underflow: bool = False,
) -> Reason:
    """Returns why an equation produced its first non-finite elements.

    Args:
        opcode: The primitive.
        values: What it read and made.
        dtype: The dtype of its result.
        untaken_where_line: The line of the `where` whose branch was not taken, if its gradient is
            this equation; "" otherwise.
        discarded_by_where_line: The line of the `where` that did not take its result, if a gradient
            has it all the same; "" otherwise.
        derived: The primitive whose derivative it computes; "" for none that is known.
        underflow: True if the zero operand is an underflow.
    """
    ranges = [value for value in values.operands if value is not None]
    made_nan = any(value is not None and value.nan for value in values.results)
    zero = any(value.zeros for value in ranges)
    if untaken_where_line and made_nan and (zero or opcode in ("mul", "div")):
        how = "0 divided by 0" if opcode == "div" else "0 times an infinite derivative"
        text = f"the gradient of a branch that jnp.where did not take ({untaken_where_line}): {how}"
        return Reason(text, _SAFE)
    found = _of_primitive(opcode, ranges, made_nan)
    if found is None and not made_nan and not any(value.inf for value in ranges):
        text = f"a result beyond the largest finite {_NAMES.get(dtype, dtype)}"
        cure = "scale the values first, or compute with their logarithms"
        cure = _WIDER if dtype in ("f16", "bf16") else cure
        found = Reason(text, cure, can_be_tried=False)
    found = found or Reason("a result that is not defined for these operands")
    if derived:
        text = f"{found.text}, in the derivative of {DERIVED[derived].where}"
        return Reason(text, DERIVED[derived].cure)
    if discarded_by_where_line:
        text = f"{found.text}, in a branch that jnp.where did not take ({discarded_by_where_line})"
        return Reason(f"{text}, but its gradient goes through it", _SAFE)
    if underflow and opcode == "log":
        return Reason(found.text, _LOGARITHMS + found.cure)
    return found


def _of_primitive(opcode: str, ranges: Sequence[ValueRange], made_nan: bool) -> Reason | None:
    """Returns why a primitive produced NaN, or infinities, of operands; None where unknown."""
    x = next(iter(ranges), ValueRange(0, 0, 0, 0, 0, 0))
    made_inf, negative, low = not made_nan, made_nan and x.least < 0, f"({x.least:.4g})"
    match opcode:
        case "log" if negative or made_inf:
            text = f"of a negative number {low}" if made_nan else "of 0"
            return Reason(f"the logarithm {text}", _KEEP_POSITIVE.format("log"))
        case "log1p" if made_inf or x.least < -1:
            text = f"a number below -1 {low}" if made_nan else "-1"
            return Reason(f"log1p of {text}", _KEEP_POSITIVE.format("log1p"))
        case "sqrt" | "rsqrt" if negative:
            text = f"the square root of a negative number {low}"
            return Reason(text, _KEEP_POSITIVE.format("sqrt"))
        case "sqrt" | "rsqrt":
            cure = "add a small number under the root, such as 1e-6"
            return Reason("1 over the square root of 0", cure)
        case "div" if made_nan and x.inf:
            return Reason("infinity divided by infinity")
        case "div":
            return Reason("0 divided by 0" if made_nan else "a division by 0", _DIVISOR)
        case "rem" if made_nan:
            return Reason("a remainder of a division by 0", _DIVISOR)
        case "mul" if made_nan:  # what avoids it depends on what made the infinity
            return Reason("0 times infinity")
        case "sub" | "add" | "add_any" | "reduce_sum" | "cumsum" if made_nan:
            return Reason("infinity - infinity")
        case "dot_general" | "conv_general_dilated" if any(value.inf for value in ranges):
            return Reason("infinity times 0, or infinity minus infinity")
        case "exp" | "exp2" | "expm1" if made_inf:
            return Reason(f"an overflow of exp({x.most:.4g})", _EXP)
        case "pow" | "integer_pow" if negative:
            text = f"a power of a negative number {low} with a fractional exponent"
            return Reason(text, _KEEP_POSITIVE.format("the base"))
        case "pow" | "integer_pow" if x.zeros:
            return Reason("a negative power of 0", _BASE)
        case "sin" | "cos" | "tan" if made_nan:
            return Reason("a sine or cosine of infinity")
        case "asin" | "acos" | "atanh" | "erf_inv":
            outer = x.most if abs(x.most) >= abs(x.least) or math.isnan(x.least) else x.least
            text = f"an argument outside of -1 to 1 ({outer:.6g})"
            return Reason(text, "clip it: jnp.clip(x, -1, 1)")
        case "cholesky":
            cure = "add a small multiple of the identity to it"
            return Reason("a matrix that is not positive definite", cure)
        case "pallas_call":
            return Reason(_IN_KERNEL)
    return None
