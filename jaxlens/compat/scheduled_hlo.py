"""Replaces a program by optimised HLO while XLA compiles it, or stops XLA before machine code.

`jax.extend.xla` offers this from jax 0.10.2 on; it is read from where it comes from, since
importing `jax.extend` changes the keys of traces (see `extend.py`). Tested with jax 0.10.2 and
0.12.0.1.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted
from jaxlens.reading import varint

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

        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        platforms = _platforms(private("xla_bridge").get_backend())
    except (ImportError, AttributeError):
        yield replaced
        return

    def replace(module: bytes) -> bytes | None:
        if name.encode() not in module[:_HEAD]:
            return None
        replaced.append(name)
        return bytes(proto)

    with _called_when_scheduled("jaxlens", replace, platforms):
        yield replaced


@uninterrupted
def stopped_when_scheduled(chosen: Callable[[int], bool]) -> Iterator[list[int]]:
    """Stops some of the compiles for a CPU in the block, of any thread, after the last pass.

    Such a compile raises JaxRuntimeError, and the list that is yielded holds its module's number.
    XLA has written its dumps of passes then, and generated no machine code, which takes three
    quarters of a compile.

    Args:
        chosen: Whether to stop the compile of a module, by the number in the names of its dumps.

    Gone: nothing is stopped.
    """
    stopped: list[int] = []

    def stop(module: bytes) -> None:
        if chosen(number := _number(module)):
            stopped.append(number)
            raise InterruptedError("jaxlens wants the passes alone")

    with _called_when_scheduled(f"jaxlens {id(stopped)}", stop, ("cpu",)):
        yield stopped


def _number(module: bytes) -> int:
    """Returns the id of a serialised `HloModuleProto`, its field 5; -1 if it has none."""
    at = 0
    while at < len(module):
        key, at = varint(module, at)
        value, at = varint(module, at)  # of kind 2, the length of what follows; others are numbers
        if key >> 3 == 5:
            return value
        at += value if key & 7 == 2 else 0
    return -1


@uninterrupted
def _called_when_scheduled(
    name: str, change: Callable[[bytes], bytes | None], platforms: tuple[str, ...]
) -> Iterator[None]:
    """Has XLA call a function with each module after its last pass. Gone: it is not called."""
    try:
        transforms = private("xla_transform")
        stage = transforms.PipelineStage.POST_SCHEDULER
        clear = transforms.clear_hlo_module_transformation
        register = transforms.register_hlo_module_transformation
        register(change, name=name, stage=stage, platforms=platforms)
    except (ImportError, AttributeError, jax.errors.JaxRuntimeError):
        yield  # JaxRuntimeError, NOT_FOUND: the plugin has another name
        return
    try:
        yield
    finally:
        clear(name, stage, platforms=platforms)


def _platforms(backend: Any) -> tuple[str, ...]:
    """Returns the names of a backend's platform, as this version of JAX looks it up.

    From 0.11 on it is the name of the plugin: of a GPU's that of its vendor.
    """
    vendor = "rocm" if "rocm" in str(backend.platform_version).lower() else "cuda"
    name = vendor if backend.platform == "gpu" else str(backend.platform)
    is_by_plugin = jax.version.__version_info__ >= (0, 11)
    return (name,) if is_by_plugin else tuple(dict.fromkeys((str(backend.platform), name)))
