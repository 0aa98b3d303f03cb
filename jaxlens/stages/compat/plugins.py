"""Finds JAX's accelerator plugins, and registers the CUDA plugin in a process without a GPU."""

import importlib
import importlib.metadata
import importlib.util

from jaxlens.stages.compat.import_private import private

_CUDA_PLUGINS = ("xla_cuda13", "xla_cuda12")


def has_cuda_plugin() -> bool:
    """Whether a CUDA plugin of JAX is installed; imports nothing.

    Gone (or renamed): False, and the message for an absent GPU asks for the plugin.
    """
    if importlib.util.find_spec("jax_plugins") is None:
        return False
    return any(importlib.util.find_spec(f"jax_plugins.{name}") for name in _CUDA_PLUGINS)


def cuda_plugin_version() -> str:
    """Returns the version of JAX's CUDA plugin, and so of the XLA in it.

    Gone, or unknown: "".
    """
    for name in ("jax-cuda13-pjrt", "jax-cuda12-pjrt"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def register_cuda() -> None:
    """Registers JAX's CUDA plugin if it is not, to describe absent GPUs and compile for them.

    JAX registers its plugins when it first looks for devices. The CUDA plugin fails to initialise
    without CUDA's libraries; the caller sets JAX_SKIP_CUDA_CONSTRAINTS_CHECK for this second try.
    Call it after JAX has initialised its backends: then CUDA cannot become the default backend.

    Gone: the plugin stays unregistered, and describing a GPU raises an error with the reason.
    """
    try:
        registered = "cuda" in private("xla_bridge")._topology_factories
    except (ImportError, AttributeError):
        return
    name = next((n for n in _CUDA_PLUGINS if importlib.util.find_spec(f"jax_plugins.{n}")), "")
    if name and not registered:
        importlib.import_module(f"jax_plugins.{name}").initialize()
