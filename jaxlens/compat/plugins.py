"""JAX's accelerator plugins, and its profiler, which starts the tracers of all of them.

The CUDA plugin is registered in a process without a GPU. Tested with jax 0.10.2 and 0.12.0.1.
"""

import ctypes
import importlib
import importlib.metadata
import importlib.util
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxlens.compat.extend import extend
from jaxlens.compat.import_private import private, when_gone

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
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
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


def load_pallas_runtime() -> None:
    """Loads the library whose symbols XLA looks up when it compiles a Pallas kernel for a GPU.

    It comes with JAX's CUDA plugin; without a GPU nothing else loads it.

    Gone (or renamed): a Pallas kernel does not compile for an absent GPU.
    """
    for name in _CUDA_PLUGINS:
        spec = importlib.util.find_spec(f"{name.replace('xla', 'jax')}_plugin")
        for folder in (spec.submodule_search_locations if spec else None) or ():
            with suppress(OSError):
                path = Path(folder) / "libmosaic_gpu_runtime.so"
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@when_gone(None)
def take_session(path: str) -> Any:
    """Returns the session of jaxlib that JAX has started, which JAX then regards as ended.

    Its `stop` returns the profile; `jax.profiler.stop_trace` writes it to files, as JSON too.

    Args:
        path: Log directory of the session; a session with another directory is not taken.

    Gone: None, and the session is ended by JAX. If that fails, the next session does too.
    """
    state = private("profiler")._profile_state
    with state.lock:
        session = getattr(state, "session", state)  # 0.12: which knows its directory itself
        if str(getattr(session, "log_dir", None)) != path:
            return None
        taken = state.profile_session if session is state else session._raw_session
        state.reset()
    return taken


def has_idle_tpu_plugin() -> bool:
    """Whether libtpu is loaded in a process without a TPU, as when compiling for an absent TPU.

    JAX's profiler starts the tracers of all loaded plugins. The tracer of a libtpu that was not
    built with this jaxlib crashes the process (0.10.2 with libtpu 0.0.4x: segmentation fault).

    Gone: whether the package is imported, which is True once JAX has looked for TPUs.
    """
    try:
        from jaxlib import xla_client

        loaded = bool(xla_client.pjrt_plugin_loaded("tpu"))
    except (ImportError, AttributeError):
        loaded = "libtpu" in sys.modules
    return loaded and "tpu" not in extend("backend", "backends")()
