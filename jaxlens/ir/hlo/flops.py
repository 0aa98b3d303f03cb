"""Counts the flops of one execution of an HLO instruction as XLA's cost analysis does.

Complex operations and FFTs excepted, which count as real operations (`equation_flops.py`).

A multiply-add of a dot or convolution is 2, an elementwise instruction 1 per element;
exponentials and the like are counted apart. A custom call of cuBLAS or cuDNN counts as the product
that it computes; the flops of others are unknown.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo.library_products import forward, library_product, without_scratch
from jaxlens.ir.jaxpr.equation_flops import complex_factor, fft_flops, tap_pairs

TRANSCENDENTAL = frozenset(
    "atan2 cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic power "
    "rsqrt sine sqrt tan tanh acos acosh asin asinh atanh cosh sinh".split()
)
ELEMENTWISE = frozenset(
    "abs add and ceil clamp compare complex convert count-leading-zeros divide floor imag "
    "is-finite maximum minimum multiply negate not or popcnt real remainder round-nearest-afz "
    "round-nearest-even select shift-left shift-right-arithmetic shift-right-logical sign "
    "subtract xor".split()
)
PRODUCTS = frozenset({"dot", "convolution"})
_LABELS = re.compile(r"\b([^\W_]++)_([^\W_]++)->(\w++)")
_WINDOW = re.compile(r"\b(\w++)=([\d_x-]++)")


@dataclass(frozen=True, slots=True)
class Done:
    """Flops and transcendentals, and the number of instructions that could not be counted."""

    flops: int = 0
    transcendentals: int = 0
    unknown: int = 0

    def __add__(self, other: "Done") -> "Done":
        return Done(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.unknown + other.unknown,
        )

    def times(self, n: int) -> "Done":
        """Returns the counts of n executions; `unknown` stays a number of instructions."""
        return Done(n * self.flops, n * self.transcendentals, self.unknown)


def done(node: Node, types: Mapping[str, Type], module: Module) -> Done:
    """Counts one instruction, without the bodies of loops, calls and fusions.

    Args:
        node: The instruction.
        types: Types of the values of its computation, by name.
        module: The module, for the computation that a reduction or scatter applies.
    """
    size = _elements(node.type)
    if node.opcode in TRANSCENDENTAL:
        return Done(0, size)
    if node.opcode in ELEMENTWISE:
        return Done(size * complex_factor(node, types))
    operands = [types[name] for name in node.operands if name in types]
    try:
        match node.opcode:
            case "custom-call":
                return _library_call(node, operands, complex_factor(node, types))
            case "dot":
                dims = re.findall(r"\d+", node.attrs.get("lhs_contracting_dims", ""))
                return Done(
                    _dot(operands[0], map(int, dims), node.type) * complex_factor(node, types)
                )
            case "convolution":
                work = _convolution(node, operands[0], operands[1], node.type)
                return Done(work * complex_factor(node, types))
            case "reduce":
                left = _elements(operands[0]) - _elements(_first(node.type))
                return _applied(node, module).times(max(left, 0))
            case "reduce-window":
                taps = _elements(_first(node.type)) * (_window_size(node) - 1)
                return _applied(node, module).times(taps)
            case "scatter":
                return _applied(node, module).times(_elements(operands[-1]))
            case "select-and-scatter":
                return Done(_elements(operands[1]) * _window_size(node))
            case "fft":
                lengths = [int(n) for n in re.findall(r"\d+", node.attrs["fft_length"])]
                points = max(_elements(operands[0]), size)
                return Done(fft_flops(points, math.prod(lengths), node.attrs["fft_type"]))
            case "map" | "all-reduce" | "reduce-scatter":
                return _applied(node, module).times(size)
    except (LookupError, ValueError):
        return Done(unknown=1)
    return Done()


def _library_call(node: Node, operands: Sequence[Type], factor: int) -> Done:
    """Counts the product that a library computes; what it does to the result counts nothing."""
    call, result = library_product(node), without_scratch(node)
    if call is None:
        return Done(unknown=1)
    if call.opcode == "dot":
        return Done(_dot(operands[0], call.contracted, _first(result)) * factor)
    types = forward(call, (operands[0], operands[1], _first(result)))
    return Done(_convolution(node, *types) * factor)


def _dot(left: Type, contracted: Iterable[int], result: Type) -> int:
    """Counts 2 per multiply-add of a product whose left operand has these contracted dimensions."""
    lengths = (left.shape[dim] for dim in contracted)
    return 2 * _elements(result) * math.prod(n for n in lengths if isinstance(n, int))


def _elements(type_: Type) -> int:
    total, pending = 0, [type_]
    while pending:
        part = pending.pop()
        pending.extend(part.parts)
        if part.dtype and part.dtype != "token":
            total += math.prod(d for d in part.shape if isinstance(d, int))
    return total


def _first(type_: Type) -> Type:
    return type_.parts[0] if type_.parts else type_


def _window(node: Node, key: str, default: Sequence[str] = ()) -> Sequence[str]:
    """Returns a field of a window attribute, a text per spatial dimension."""
    text: str | None = dict(_WINDOW.findall(node.attrs.get("window", ""))).get(key)
    return text.split("x") if text else default


def _window_size(node: Node) -> int:
    return math.prod(map(int, _window(node, "size")))


def _convolution(node: Node, image_type: Type, kernel_type: Type, result_type: Type) -> int:
    """Counts 2 per multiply-add, without taps on padding or between dilated input elements."""
    labels = _LABELS.search(node.attrs["dim_labels"])
    if labels is None:
        raise ValueError("convolution without labels")
    image, kernel, result = (
        dict(zip(dims, map(int, type_.shape), strict=False))
        for dims, type_ in zip(labels.groups(), (image_type, kernel_type, result_type), strict=True)
    )
    spatial = sorted(dim for dim in result if dim.isdigit())
    ones = ["1"] * len(spatial)
    pads = _window(node, "pad", ["0_0"] * len(spatial))
    fields = (
        _window(node, "stride", ones),
        [pad.rpartition("_")[0] or "0" for pad in pads],
        _window(node, "lhs_dilate", ones),
        _window(node, "rhs_dilate", ones),
    )
    pairs = math.prod(
        tap_pairs(image[dim], kernel[dim], result[dim], *map(int, numbers))
        for dim, *numbers in zip(spatial, *fields, strict=True)
    )
    features: int = result["b"] * result["f"] * kernel["i"]
    return 2 * features * pairs


def _applied(node: Node, module: Module) -> Done:
    """Counts one application of the computation of a reduction or scatter."""
    total = Done()
    for name in node.regions:
        region = module.regions.get(name)
        if region is None:
            continue
        types = region.types()
        for inner in region.nodes:
            if not inner.regions:
                total += done(inner, types, module)
    return total
