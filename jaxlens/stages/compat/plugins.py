"""JAX's plugins for accelerators: which are there, and bringing one in that is idle."""

import importlib
import importlib.metadata
import importlib.util
import sys

from jaxlens.stages.compat.import_private import private

_CUDA_PLUGINS = ("xla_cuda13", "xla_cuda12")


def has_cuda_plugin() -> bool:
    """Whether one of JAX's CUDA plugins is installed; nothing is imported.

    Gone (under another name): False, and GPUs that are not here are said to need it.
    """
    if importlib.util.find_spec("jax_plugins") is None:
        return False
    return any(importlib.util.find_spec(f"jax_plugins.{name}") for name in _CUDA_PLUGINS)


def cuda_plugin_version() -> str:
    """Version of the compiler in JAX's CUDA plugin, which is XLA's.

    Gone, or not known: "".
    """
    for name in ("jax-cuda13-pjrt", "jax-cuda12-pjrt"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def register_cuda() -> None:
    """Registers JAX's CUDA plugin where it is not, so that it can describe GPUs and compile.

    JAX registers its plugins when it first looks for devices. This one refuses where CUDA's
    libraries are missing, and is tried once more here, under an environment that lets it pass.
    Call it when the process's devices are settled: then it cannot become the default backend.

    Gone: the plugin is as JAX left it, and describing a GPU says why it cannot.
    """
    try:
        registered = "cuda" in private("xla_bridge")._topology_factories
    except (ImportError, AttributeError):
        return
    name = next((n for n in _CUDA_PLUGINS if importlib.util.find_spec(f"jax_plugins.{n}")), "")
    if name and not registered:
        importlib.import_module(f"jax_plugins.{name}").initialize()


def has_idle_tpu_plugin() -> bool:
    """Whether libtpu is loaded in a process that has no TPU, as for compiling for one elsewhere.

    JAX's profiler starts the tracers of all loaded plugins, and that of a libtpu from another
    day than jaxlib's ends the process (0.10.2 with libtpu 0.0.4x: a segmentation fault).

    Gone: whether the package was imported, which is so whenever JAX has looked for TPUs.
    """
    from jax.extend import backend

    try:
        from jaxlib import xla_client

        loaded = bool(xla_client.pjrt_plugin_loaded("tpu"))
    except (ImportError, AttributeError):
        loaded = "libtpu" in sys.modules
    return loaded and "tpu" not in backend.backends()
