"""Identifies a lowered module by what jaxlens shows of it, wherever its call was written."""

from hashlib import sha256
from typing import Any

from jaxlens.ir.stablehlo.locations import resolver


def identity(module: Any) -> bytes:
    """Returns a digest of a module's ops with their scopes and spans.

    Spans end where the traced function begins. The locations of two looks at one function differ
    outside of it: in the cell or line that looks, and in what runs that cell.

    Args:
        module: An MLIR module (`lowered.compiler_ir("stablehlo")`).
    """
    from jaxlib.mlir import ir

    digest = sha256()
    with module.context:
        digest.update(module.operation.get_asm(enable_debug_info=False).encode())
        resolve = resolver(ir)
        known: dict[object, bytes] = {}

        def add(location: Any) -> None:
            place = resolve(location)
            text = known.get(place)
            if text is None:
                text = known[place] = f"{place}\n".encode("utf-8", "surrogatepass")
            digest.update(text)

        def visit(op: Any) -> Any:
            add(op.location)
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        add(argument.location)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return digest.digest()
