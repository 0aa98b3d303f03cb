"""Reads what a custom call of cuBLAS or cuDNN computes: a matrix product, or a convolution.

On NVIDIA GPUs XLA replaces products by calls of these libraries where its autotuning measures that
they are faster than its own kernels. A call of cuBLAS has the numbers of the contracted dimensions
in its `backend_config`. A call of cuDNN has `dim_labels` and `window`, which describe the forward
convolution even where the call computes a gradient of one. The last result is scratch memory of
the library. Seen in programs of jax 0.11.2 for an H100; the names are those of XLA's
`cublas_cudnn.h`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.ir.graph import Node, Type

_LIBRARIES = {"__cublas$": "cuBLAS", "__cudnn$conv": "cuDNN"}
_SCRATCH = frozenset({"s8", "u8"})
# The positions of image, kernel and result of the forward convolution among the first operand, the
# second one and the result of the call.
_ROLES = {"convBackwardInput": (2, 1, 0), "convBackwardFilter": (0, 2, 1)}


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """A product that a library computes.

    Attributes:
        library: "cuBLAS" or "cuDNN".
        opcode: The opcode of the product: "dot" or "convolution".
        contracted: Numbers of the contracted dimensions of the first operand; of a dot only.
        roles: Where image, kernel and result of the forward convolution are among the first
            operand, the second one and the result; of a convolution only.
    """

    library: str
    opcode: Literal["dot", "convolution"]
    contracted: tuple[int, ...] = ()
    roles: tuple[int, int, int] = (0, 1, 2)


def library_product(node: Node) -> LibraryProduct | None:
    """Returns the product that a custom call computes; None for other calls and instructions."""
    if node.opcode != "custom-call":  # attributes are read from text on first use
        return None
    target = node.attrs.get("custom_call_target", "").strip('"')
    library = next((name for head, name in _LIBRARIES.items() if target.startswith(head)), "")
    if library == "cuDNN":
        return LibraryProduct(library, "convolution", roles=_ROLES.get(target[8:], (0, 1, 2)))
    if not library:
        return None
    try:
        config = json.loads(node.attrs["backend_config"])["gemm_backend_config"]
        dims = config["dot_dimension_numbers"]["lhs_contracting_dimensions"]
        return LibraryProduct(library, "dot", tuple(map(int, dims)))
    except (LookupError, TypeError, ValueError):
        return None


def label(node: Node) -> str:
    """Returns the opcode, of a library's product with the library: "dot (cuBLAS)"."""
    call = library_product(node)
    return f"{call.opcode} ({call.library})" if call else node.opcode


def without_scratch(node: Node) -> Type:
    """Returns the type of a node's value, of a library's call without the scratch memory."""
    parts = node.type.parts
    if len(parts) < 2 or not is_scratch(node, len(parts) - 1):
        return node.type
    kept = parts[:-1]
    return kept[0] if len(kept) == 1 else Type("", parts=kept)


def is_scratch(node: Node, index: int) -> bool:
    """Whether a part of a node's value is the scratch memory of a library."""
    parts = node.type.parts
    if index != len(parts) - 1 or parts[index].dtype not in _SCRATCH:
        return False
    return library_product(node) is not None


def forward(call: LibraryProduct, types: Sequence[Type]) -> tuple[Type, Type, Type]:
    """Returns the types of image, kernel and result of the forward convolution.

    Args:
        call: A convolution.
        types: Of the call's first operand, second operand and result.
    """
    image, kernel, result = (types[role] for role in call.roles)
    return image, kernel, result
