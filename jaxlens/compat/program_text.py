"""Converts a module without a jaxpr or jit, and compiles it with XLA's client.

Tested with jax 0.10.2 and 0.12.0.1. The client takes its devices as a `jaxlib._jax.DeviceList`;
`jaxlib._hlo` parses HLO text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxlens.compat.extend import extend
from jaxlens.compat.import_private import when_gone


@when_gone(None)
def from_hlo(text: str) -> Any:
    """Parses HLO text into an HLO module of XLA.

    Gone: None; jaxlens reads the HLO text, but it cannot be compiled.

    Raises:
        ValueError: XLA cannot read the text.
    """
    from jaxlib import _hlo

    read = _hlo.hlo_module_from_text
    try:
        return read(text)
    except Exception as error:
        raise ValueError(str(error).strip() or "no reason given") from None


@when_gone(None)
def to_stablehlo(module: Any) -> bytes | None:
    """Converts an HLO module to StableHLO bytecode.

    Gone: None.

    Raises:
        ValueError: XLA finds fault with it, such as a layout that is not of its shape.
    """
    from jaxlib import _jax

    convert = _jax.mlir.hlo_to_stablehlo
    try:
        bytecode: bytes = convert(module.as_serialized_hlo_module_proto())
        return bytecode
    except Exception as error:
        raise ValueError(str(error).strip()) from None


@when_gone(None)
def to_hlo(module: Any) -> Any:
    """Converts a StableHLO module to an XLA computation, which prints as HLO. Gone: None."""
    from jaxlib import _jax

    text = module.operation.get_asm(enable_debug_info=True).encode()
    return _jax.mlir.mlir_module_to_xla_computation(text)


def compiled(
    module: bytes, devices: Sequence[Any], partitions: int, options: Mapping[str, Any]
) -> Any:
    """Compiles and loads a StableHLO module (text or bytecode) with XLA's client.

    Args:
        module: The StableHLO module.
        devices: The devices to compile for.
        partitions: Number of partitions; there are len(devices) // partitions replicas.
        options: XLA's compiler options, by name.

    Gone: None.
    """
    import numpy as np

    try:
        from jaxlib import _jax

        replicas = len(devices) // partitions
        built = extend("backend", "get_compile_options")(
            num_replicas=replicas,
            num_partitions=partitions,
            device_assignment=np.array([d.id for d in devices]).reshape(replicas, partitions),
            env_options_overrides=dict(options),
        )
        client = devices[0].client
        device_list = _jax.DeviceList(tuple(devices))
        load = client.compile_and_load
    except (ImportError, AttributeError, TypeError):
        return None
    return load(module, device_list, built)
