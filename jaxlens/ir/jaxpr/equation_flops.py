"""Counts the floating-point operations of one jaxpr equation from its shapes.

The conventions are those of XLA's cost analysis, so that the two figures can be compared: a
multiply-add is 2; an elementwise primitive is 1 per element of its result, integer arithmetic,
comparisons, selects and conversions included; exponentials, roots, logarithms and the like are
counted apart, as transcendentals; data movement is 0. A sort is n log2 n comparisons and an FFT
5 n log2 n, the usual estimates.

Flops are operations on real numbers: a complex addition is 2, a complex product 6 and so the
multiply-add of a complex dot 8, as the 5 n log2 n of a complex FFT are; a real FFT is half of it.
XLA counts a complex operation as 1, the multiply-add of a complex dot as 2, and any FFT as
8 n log2 n.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jaxlens.ir.graph import Node, Type

TRANSCENDENTAL = frozenset(
    "acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt cos cosh digamma erf "
    "erf_inv erfc exp exp2 expm1 igamma igammac lgamma log log1p logistic polygamma pow "
    "regularized_incomplete_beta rsqrt sin sinh sqrt tan tanh zeta".split()
)
ELEMENTWISE = frozenset(
    "abs add add_any and ceil clamp clz complex conj convert_element_type div eq eq_to floor ge "
    "gt imag is_finite le le_to lt lt_to max min mul mulhi ne neg nextafter not or "
    "population_count real reciprocal reduce_precision rem round select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign square sub xor".split()
)
FREE = frozenset(
    "all_gather all_gather_invariant all_to_all axis_index bitcast_convert_type broadcast_in_dim "
    "concatenate cond copy copy_p create_token device_put dynamic_slice dynamic_update_slice "
    "empty empty2 expand_dims gather iota layout_constraint mesh_cast name optimization_barrier "
    "pad pbroadcast ppermute pvary random_unwrap random_wrap reshape reshard rev scan scatter "
    "sharding_constraint slice split squeeze stack stop_gradient transpose while".split()
) | frozenset(  # primitives on refs, and those of Pallas kernels that do no arithmetic
    "accum_grad_in_ref bitcast broadcast_to delay dma_start dma_wait empty_ref free_ref freeze get "
    "get_barrier_semaphore masked_load masked_swap multiple_of new_ref num_programs program_id "
    "roll semaphore_read semaphore_signal semaphore_wait swap".split()
)
# Starts of primitives whose body is applied to elements: `applied` counts how often, or `flops` has
# a rule.
APPLIED = ("reduce", "reduce_window", "scatter", "select_and_scatter", "argm", "sort")
# Real operations of a complex one in a jaxpr or in HLO, where these are not 2, one for the real and
# one for the imaginary part. A multiply-add, which counts 2, is 6 + 2.
_COMPLEX = {
    **dict.fromkeys("mul multiply square integer_pow reduce_prod cumprod".split(), 6),
    **dict.fromkeys("scatter_mul scatter-mul".split(), 6),
    **dict.fromkeys("div divide".split(), 11),
    **dict.fromkeys("eq ne compare".split(), 3),
    **dict.fromkeys("abs dot_general dot custom-call ragged_dot ragged_dot_general".split(), 4),
    **dict.fromkeys("conv_general_dilated convolution triangular_solve lu cholesky".split(), 4),
    **dict.fromkeys("complex conj real imag select_n select sort fft".split(), 1),
    **dict.fromkeys("convert_element_type convert".split(), 1),
}
_SPECS = re.compile(r"\b(\w+_spec)=(\([^()]*\))")
_MESH_AXIS = re.compile(r"('[^']*'): (\d+)")  # of the text of a mesh
_MOST_PAIRS = 1_000_000  # with more (position, tap) pairs than this, padding is counted as work


@dataclass(frozen=True, slots=True)
class Flops:
    """The operations of one execution of an equation; None where the number is unknown."""

    arithmetic: int | None
    transcendental: int = 0


def flops(node: Node, types: Mapping[str, Type]) -> Flops:
    """Counts the flops of one equation, without the bodies that it calls.

    Args:
        node: The equation.
        types: Types of the values in its region, by name.
    """
    name = node.opcode
    try:
        out = elements(node.results[0].type) if node.results else 0
        if name in TRANSCENDENTAL:
            return Flops(0, out)
        if name in ELEMENTWISE:
            return Flops(out * complex_factor(node, types))
        if name in FREE:
            return Flops(0)
        rule = _window if name.startswith("reduce_window_") else _RULES.get(name)
        if rule is None:
            return Flops(None)
        return Flops(rule(node, _operands(node, types)) * complex_factor(node, types))
    except (LookupError, ValueError, SyntaxError, TypeError):  # symbolic sizes, unknown parameters
        return Flops(None)


def complex_factor(node: Node, types: Mapping[str, Type]) -> int:
    """Returns by what the count of an equation or instruction grows if its numbers are complex."""
    operands = (types[name] for name in node.operands if name in types)
    if not any(map(is_complex, (*operands, *(value.type for value in node.results)))):
        return 1
    return _COMPLEX.get(node.opcode, 2)


def fft_flops(points: int, length: int, kind: str) -> int:
    """Returns 5 n log2 n for each transform, half of it between real and complex numbers.

    Args:
        points: Elements of the operand or of the result, the larger number.
        length: Points of one transform, over all its dimensions.
        kind: What the program calls it: "FFT", "RFFT", "IRFFT", or JAX's number of it.
    """
    is_real = any(word in kind for word in ("RFFT", "2", "3"))
    return math.ceil(5 * points * math.log2(max(length, 1))) // (2 if is_real else 1)


def is_complex(type_: Type) -> bool:
    """Whether a value holds complex numbers."""
    return type_.dtype in ("c64", "c128")


def applied(node: Node, types: Mapping[str, Type]) -> int | None:
    """Returns how often a reduction applies its body to elements; None where unknown.

    Reducing n elements to one applies the body n - 1 times.
    """
    if node.opcode not in ("reduce", "reduce_window") or len(node.regions) != 1:
        return None
    try:
        return (_reduce if node.opcode == "reduce" else _window)(node, _operands(node, types))
    except (LookupError, ValueError, SyntaxError, TypeError):
        return None


def devices_of_body(node: Node) -> int | None:
    """Returns how many devices run the body of a `shard_map`; None where its mesh is unknown.

    They are those along the mesh's manual axes: along the others, shapes in the body are global.
    """
    mesh = node.attrs.get("mesh", "")
    sizes = dict(_MESH_AXIS.findall(mesh))
    manual = node.attrs.get("newly_manual_axes", mesh)  # in jaxlens.core all axes are
    names = [name for name in sizes if name in manual]
    known = sizes and len(names) == manual.count("'") // 2
    return math.prod(int(sizes[name]) for name in names) if known else None


def elements(type_: Type) -> int:
    """Returns the number of elements of a value.

    Raises:
        TypeError: A dimension is symbolic.
    """
    return math.prod(_sizes(type_))


def _sizes(type_: Type) -> tuple[int, ...]:
    sizes = tuple(d for d in type_.shape if isinstance(d, int))
    if len(sizes) != len(type_.shape):
        raise TypeError("symbolic dimension")
    return sizes


def _operands(node: Node, types: Mapping[str, Type]) -> list[tuple[int, ...]]:
    """Returns the shapes of the operands; a literal is a scalar."""
    return [_sizes(types[name]) if name in types else () for name in node.operands]


def _numbers(node: Node, attr: str) -> list[int]:
    return [int(n) for n in ast.literal_eval(node.attrs[attr])]


def _dot(node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Counts 2 per multiply-add: result elements times contracted sizes."""
    (contract, _), _ = ast.literal_eval(node.attrs["dimension_numbers"])
    sizes = [shapes[0][int(d)] for d in contract]
    return 2 * elements(node.results[0].type) * math.prod(sizes)


def _ragged_dot(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return 2 * elements(node.results[0].type) * shapes[0][-1]


def _conv(node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Counts 2 per multiply-add, without taps that fall on padding."""
    specs = {k: ast.literal_eval(v) for k, v in _SPECS.findall(node.attrs["dimension_numbers"])}
    lhs, rhs = shapes
    out = _sizes(node.results[0].type)
    pads = ast.literal_eval(node.attrs["padding"])
    strides, dilate = _numbers(node, "window_strides"), _numbers(node, "rhs_dilation")
    spread = _numbers(node, "lhs_dilation")
    pairs = 1
    for i, (a, b, c) in enumerate(
        zip(specs["lhs_spec"][2:], specs["rhs_spec"][2:], specs["out_spec"][2:], strict=True)
    ):
        pairs *= tap_pairs(
            lhs[a], rhs[b], out[c], strides[i], int(pads[i][0]), spread[i], dilate[i]
        )
    batch, features = (out[int(d)] for d in specs["out_spec"][:2])
    return 2 * batch * features * rhs[int(specs["rhs_spec"][1])] * pairs


def tap_pairs(
    size: int, taps: int, out: int, stride: int, low: int, spread: int, dilate: int
) -> int:
    """Counts pairs of output position and kernel tap that read an element, along one dimension.

    Tap k of output o reads position o * stride + k * dilate - low of the input, whose elements are
    `spread` apart. With size 3, 3 taps and low 1, output 0 reads -1, 0, 1, and -1 is padding.
    """
    if out * taps > _MOST_PAIRS:
        return out * taps
    last = (size - 1) * spread
    positions = (o * stride + k * dilate - low for o in range(out) for k in range(taps))
    return sum(1 for position in positions if 0 <= position <= last and position % spread == 0)


def _reduce(node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Counts one operation per input element beyond those of the result."""
    return max(math.prod(shapes[0]) - elements(node.results[0].type), 0)


def _cumulative(node: Node, shapes: list[tuple[int, ...]]) -> int:
    size = shapes[0][int(node.attrs["axis"])]
    return math.prod(shapes[0]) // max(size, 1) * max(size - 1, 0)


def _window(node: Node, shapes: list[tuple[int, ...]]) -> int:
    window = math.prod(_numbers(node, "window_dimensions"))
    return elements(node.results[0].type) * (window - 1)


def _pick_and_add(node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Counts the comparisons in each window and one addition per window."""
    return math.prod(shapes[0]) * math.prod(_numbers(node, "window_dimensions"))


def _one_minus_square(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return 2 * math.prod(shapes[0])  # 1 - x * x: jax 0.12 has it for the derivative of tanh


def _integer_pow(node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Counts the multiplications of repeated squaring, and a division for a negative power.

    x ** 13, in binary 1101: a squaring per bit after the first (3) and a product per further 1 (2).
    """
    power = int(node.attrs["y"])
    steps = max(abs(power).bit_length() - 1 + abs(power).bit_count() - 1, 0) + (power < 0)
    return elements(node.results[0].type) * steps


def _updates(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return math.prod(shapes[-1])


def _added(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return math.prod(shapes[1])  # one addition per element of the value added to a ref


def _sort(node: Node, shapes: list[tuple[int, ...]]) -> int:
    size = shapes[0][int(node.attrs["dimension"])]
    return math.ceil(math.prod(shapes[0]) * math.log2(size)) if size > 1 else 0


def _fft(node: Node, shapes: list[tuple[int, ...]]) -> int:
    whole = max(math.prod(shapes[0]), elements(node.results[0].type))
    return fft_flops(whole, math.prod(_numbers(node, "fft_lengths")), node.attrs["fft_type"])


def _cholesky(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return math.prod(shapes[0]) * shapes[0][-1] // 3


def _lu(node: Node, shapes: list[tuple[int, ...]]) -> int:
    return 2 * math.prod(shapes[0]) * min(shapes[0][-2:]) // 3


def _solve(node: Node, shapes: list[tuple[int, ...]]) -> int:
    side = node.attrs.get("left_side") == "True"
    return math.prod(shapes[1]) * shapes[1][-2 if side else -1]


Rule = Callable[[Node, list[tuple[int, ...]]], int]
_RULES: dict[str, Rule] = {
    "dot_general": _dot,
    "ragged_dot": _ragged_dot,
    "ragged_dot_general": _ragged_dot,
    "conv_general_dilated": _conv,
    "integer_pow": _integer_pow,
    "one_minus_square": _one_minus_square,
    **{
        f"scatter{dash}{kind}": _updates
        for dash in "-_"
        for kind in ("add", "mul", "min", "max", "sub")
    },
    "select_and_scatter_add": _pick_and_add,
    "addupdate": _added,
    "sort": _sort,
    "fft": _fft,
    "cholesky": _cholesky,
    "lu": _lu,
    "triangular_solve": _solve,
    **dict.fromkeys(
        "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax "
        "argmin psum pmax pmin psum_invariant reduce_scatter".split(),
        _reduce,
    ),
    **dict.fromkeys("cumsum cumprod cummax cummin cumlogsumexp".split(), _cumulative),
}
