"""A program that is there as a module alone, compiled by XLA's client: no jaxpr, no jit.

Tried with jax 0.10.2 and 0.12.0.1. `jaxlib._jax.DeviceList` is what the client wants;
`jaxlib._hlo` reads HLO text.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def from_hlo(text: str) -> Any:
    """HLO text as an HLO module of XLA's.

    Gone: None; then HLO text is read by us and compiled by nobody.

    Raises:
        ValueError: XLA cannot read the text.
    """
    try:
        from jaxlib import _hlo

        read = _hlo.hlo_module_from_text
    except (ImportError, AttributeError):
        return None
    try:
        return read(text)
    except Exception as error:
        raise ValueError(str(error).strip() or "no reason given") from None


def to_stablehlo(module: Any) -> bytes | None:
    """An HLO module as bytecode of StableHLO. Gone: None."""
    try:
        from jaxlib import _jax

        made: bytes = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        return made
    except (ImportError, AttributeError):
        return None


def to_hlo(module: Any) -> Any:
    """A StableHLO module as XLA's own computation, which prints as HLO. Gone: None."""
    try:
        from jaxlib import _jax

        text = module.operation.get_asm(enable_debug_info=True).encode()
        return _jax.mlir.mlir_module_to_xla_computation(text)
    except (ImportError, AttributeError):
        return None


def compiled(
    module: bytes, devices: Sequence[Any], partitions: int, options: Mapping[str, Any]
) -> Any:
    """A StableHLO module (text or bytecode) compiled and loaded by XLA's client.

    Args:
        module: The program.
        devices: On which it is to be.
        partitions: Into how many it is cut; a program of one for each device beside that.
        options: XLA's, by name.

    Gone: None.
    """
    import numpy as np
    from jax.extend import backend

    try:
        from jaxlib import _jax

        replicas = len(devices) // partitions
        built = backend.get_compile_options(
            num_replicas=replicas,
            num_partitions=partitions,
            device_assignment=np.array([d.id for d in devices]).reshape(replicas, partitions),
            env_options_overrides=dict(options),
        )
        client = devices[0].client
        places = _jax.DeviceList(tuple(devices))
        load = client.compile_and_load
    except (ImportError, AttributeError, TypeError):
        return None
    return load(module, places, built)
