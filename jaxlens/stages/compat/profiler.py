"""JAX's profiler: whether it can start, and the state of its session.

Tested with jax 0.10.2 and 0.12.0.1: `jax.profiler.stop_trace` resets the state only after it has
written the session. If writing fails, JAX regards the session as running, and none can start.
"""

import sys

from jaxlens.stages.compat.import_private import private, when_gone


@when_gone(None)
def forget_session(path: str) -> None:
    """Resets a session of jaxlens that could not be written, so that the next one can start.

    Args:
        path: Log directory of the session; a session with another directory is not reset.

    Gone: the next session of the process fails, as it does in JAX alone.
    """
    state = private("profiler")._profile_state
    with state.lock:
        if str(state.log_dir) == path:
            state.reset()


def has_idle_tpu_plugin() -> bool:
    """Whether libtpu is loaded in a process without a TPU, as when compiling for an absent TPU.

    JAX's profiler starts the tracers of all loaded plugins. The tracer of a libtpu that was not
    built with this jaxlib crashes the process (0.10.2 with libtpu 0.0.4x: segmentation fault).

    Gone: whether the package is imported, which is True once JAX has looked for TPUs.
    """
    from jax.extend import backend

    try:
        from jaxlib import xla_client

        loaded = bool(xla_client.pjrt_plugin_loaded("tpu"))
    except (ImportError, AttributeError):
        loaded = "libtpu" in sys.modules
    return loaded and "tpu" not in backend.backends()
