"""Replaces a program by optimised HLO while XLA compiles it.

`jax.extend.xla` offers this from jax 0.10.2 on; it is read from where it comes from, since
importing `jax.extend` changes the keys of traces (see `extend.py`). Tested with jax 0.10.2 and
0.12.0.1.
"""

from collections.abc import Iterator
from typing import Any

import jax

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

_HEAD = 200  # bytes at the start of a serialised module, which hold its name


@uninterrupted
def replaced_when_scheduled(name: str, text: str) -> Iterator[list[str]]:
    """Has XLA compile a text in the place of the module of a name, after the last pass.

    Yields a list, which holds the name once the module has been replaced. Other modules that are
    compiled meanwhile stay as they are.

    Args:
        name: The name of the module to replace.
        text: Optimised HLO, scheduled, of the same arguments and results.

    Gone: nothing is replaced.
    """
    replaced: list[str] = []
    try:
        from jaxlib import _hlo

        transforms = private("xla_transform")
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        stage = transforms.PipelineStage.POST_SCHEDULER
        register = transforms.register_hlo_module_transformation
        clear = transforms.clear_hlo_module_transformation
        platforms = _platforms(private("xla_bridge").get_backend())
    except (ImportError, AttributeError):
        yield replaced
        return

    def replace(module: bytes) -> bytes | None:
        if name.encode() not in module[:_HEAD]:
            return None
        replaced.append(name)
        return bytes(proto)

    try:
        register(replace, name="jaxlens", stage=stage, platforms=platforms)
    except jax.errors.JaxRuntimeError:  # NOT_FOUND: the plugin has another name
        yield replaced
        return
    try:
        yield replaced
    finally:
        clear("jaxlens", stage, platforms=platforms)


def _platforms(backend: Any) -> tuple[str, ...]:
    """Returns the names of a backend's platform, as this version of JAX looks it up.

    From 0.11 on it is the name of the plugin: of a GPU's that of its vendor.
    """
    vendor = "rocm" if "rocm" in str(backend.platform_version).lower() else "cuda"
    name = vendor if backend.platform == "gpu" else str(backend.platform)
    is_by_plugin = jax.version.__version_info__ >= (0, 11)
    return (name,) if is_by_plugin else tuple(dict.fromkeys((str(backend.platform), name)))
