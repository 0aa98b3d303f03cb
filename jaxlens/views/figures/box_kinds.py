"""Determines the text of an equation's box: its family, its label and its second line.

Uses only the primitive's name and printed parameters; an unknown primitive is of family "other".
"""

import re
from collections.abc import Collection, Sequence

from jaxlens.ir.graph import Node
from jaxlens.render.document import Line
from jaxlens.render.graph.figure import BoxKind

_FAMILIES: dict[BoxKind, str] = {
    "matmul": "dot_general dot convolution conv_general_dilated ragged_dot ragged_dot_general "
    "triangular_solve cholesky lu qr svd eigh eig schur fft householder_product scaled_matmul "
    "tridiagonal hessenberg geqrf geqp3 custom_call",
    "reduce": "reduce argmax argmin reduce_window cumsum cumprod cummax cummin cumlogsumexp sort "
    "top_k select_and_scatter_add select_and_gather_add reduce_precision select_and_scatter",
    "move": "reshape transpose broadcast_in_dim concatenate slice dynamic_slice "
    "dynamic_update_slice gather scatter pad squeeze rev iota split copy "
    "device_put bitcast_convert_type broadcast get swap bitcast reverse tuple get_tuple_element",
    "control": "scan while cond switch for case if",
    "call": "jit closed_call remat checkpoint remat2 custom_jvp_call custom_vjp_call custom_lin "
    "shard_map pallas_call run_state custom_partitioning fusion call composite "
    "custom_transpose_call linear_call jax_export_call call_exported func.call",
    "random": "random_bits random_seed random_wrap random_unwrap random_fold_in random_split "
    "random_clone random_gamma threefry2x32 rng_bit_generator rng_uniform random_gamma_grad "
    "rng-bit-generator",
    "collective": "psum psum_invariant pmax pmin ppermute pbroadcast all_gather "
    "all_gather_invariant all_to_all reduce_scatter axis_index pvary pgather all_reduce "
    "collective_permute sharding_constraint mesh_cast reshard collective_broadcast partition_id",
    "elementwise": "add sub mul div max min pow integer_pow exp exp2 log log1p expm1 tanh sin cos "
    "tan asin acos atan sinh cosh asinh acosh atanh atan2 sqrt rsqrt cbrt logistic abs neg sign "
    "floor ceil round is_finite eq ne lt le gt ge eq_to lt_to le_to and or not xor select_n clamp "
    "convert_element_type erf erfc erf_inv lgamma digamma rem nextafter shift_left square "
    "shift_right_logical shift_right_arithmetic real imag conj complex population_count clz "
    "stop_gradient add_any select_and igamma igammac bessel_i0e bessel_i1e regularized_incomplete "
    "optimization_barrier subtract multiply divide maximum minimum negate compare select convert "
    "exponential power cosine sine polygamma zeta mulhi",
}
_FAMILY = {name: kind for kind, names in _FAMILIES.items() for name in names.split()}

_PREFIXES: tuple[tuple[str, BoxKind], ...] = (
    ("reduce_", "reduce"),
    ("scatter", "move"),
    ("random_", "random"),
    ("custom_", "call"),
    ("all-", "collective"),
    ("arg", "reduce"),
    ("cum", "reduce"),
    ("conv", "matmul"),
)

_ORDER_WORDS = (
    "sub div pow rem atan2 gt lt ge le select_n clamp nextafter shift_left complex "
    "shift_right_logical shift_right_arithmetic dynamic_slice"
)
# Primitives for which the position of a literal among the operands matters.
_ORDERED = frozenset(_ORDER_WORDS.split())
# Parameters that say what a primitive does, of which a box shows the first.
_TELLING = frozenset(
    "permutation y new_dtype dimension dimensions length axis axes axis_name mantissa_bits k "
    "start_indices fft_type grid".split()
)
_NAMED = frozenset({"transpose", "convert_element_type"})  # shown without the parameter's name
_SHORT_DTYPE = re.compile(r"^(float|uint|int|complex)(\d+)$")
_INNER_LITERAL = re.compile(r"^\w+\(([^,()]+)[,)].*$")
_FRACTION = re.compile(r"^-?\d+\.\d{6,}(e[+-]?\d+)?$")
_PAIR = re.compile(r"\(([\d, ]*)\)")


def family(node: Node, variables: Collection[str]) -> BoxKind:
    """Returns the family of a node; operands that are not in `variables` are literals."""
    name = node.opcode
    if name in ("broadcast_in_dim", "broadcast", "iota", "pvary"):
        return "quiet"
    if name in ("constant", "full", "empty"):
        return "constant"
    literal_only = not node.regions and not any(name in variables for name in node.operands)
    if literal_only and name in ("convert_element_type", "reshape"):
        return "quiet"
    if name in _FAMILY:
        return _FAMILY[name]
    rest: BoxKind = "call" if node.regions else "other"
    return next((kind for prefix, kind in _PREFIXES if name.startswith(prefix)), rest)


def label(node: Node, variables: Collection[str] | None = None) -> str:
    """Returns the first line: a call's callee, a broadcast literal's value, or the primitive."""
    if node.opcode == "broadcast_in_dim" and variables is not None:
        first = node.operands[0] if node.operands else ""
        return node.opcode if first in variables else literal(first)
    if family(node, ()) == "call" and node.opcode not in ("shard_map", "checkpoint", "remat"):
        if name := node.attrs.get("name"):
            return name
        if len(node.regions) == 1 and node.opcode.startswith("custom"):
            return re.sub(r" \d+$", "", node.regions[0])
    return node.opcode


def detail(node: Node, variables: Collection[str]) -> str:
    """Returns the second line: literals, and the most important parameter."""
    if node.regions and label(node) != node.opcode:
        return "  ".join(filter(None, (node.opcode.removesuffix("_call"), _telling(node))))
    if family(node, variables) == "quiet" and label(node, variables) != node.opcode:
        return ""
    literals = "" if node.regions else _literals(node, variables)
    return "  ".join(filter(None, (literals, _telling(node))))


def _literals(node: Node, variables: Collection[str]) -> str:
    texts = ["·" if operand in variables else literal(operand) for operand in node.operands]
    literals = [text for text in texts if text != "·"]
    if len(node.operands) > 6 or not literals:
        return ""
    return ", ".join(texts if node.opcode in _ORDERED else literals)


def literal(operand: str) -> str:
    """Returns `2.0` for `2.0:f32[]`; long fractions in six digits (the tooltip has all)."""
    text = _INNER_LITERAL.sub(r"\1", operand.rpartition(":")[0] or operand)
    return f"{float(text):.6g}" if _FRACTION.match(text) else text


def _telling(node: Node) -> str:
    if node.opcode == "dot_general":
        return _contraction(node.attrs.get("dimension_numbers", ""))
    key = next((key for key in node.attrs if key in _TELLING), "")
    value = node.attrs.get(key, "None")
    if value == "None":
        return ""
    if node.opcode in _NAMED:
        return _SHORT_DTYPE.sub(lambda m: {"uint": "u"}.get(m[1], m[1][0]) + m[2], value)
    return f"{key}={value}"


def _contraction(numbers: str) -> str:
    """Returns `1·0` if dimensions 1 and 0 are contracted; `batch 0·0  2·1` with batch dims."""
    pairs = [pair.strip().strip(",") for pair in _PAIR.findall(numbers)]
    if len(pairs) != 4:
        return ""
    contracted, batch = f"{pairs[0]}·{pairs[1]}", f"{pairs[2]}·{pairs[3]}"
    text = contracted if contracted != "·" else "outer"
    return text if batch == "·" else f"batch {batch}  {text}"


def hint(line: Line) -> str:
    """Returns a node's line without what is folded, and with its owner, for the tooltip."""
    text = "".join(piece.text for piece in line.pieces if piece.kind != "fold")
    return f"{text}  ({line.line})" if line.line else text


def alike(types: Sequence[str]) -> str:
    """Returns the label of an edge for values of these types."""
    if len(types) == 1:
        return types[0]
    if len(set(types)) == 1:
        return f"{len(types)} × {types[0]}"
    return f"{len(types)} values"
