"""Resets the state of JAX's profiler session.

Tested with jax 0.10.2 and 0.12.0.1: `jax.profiler.stop_trace` resets the state only after it has
written the session. If writing fails, JAX regards the session as running, and none can start.
"""

from jaxlens.stages.compat.import_private import private


def forget_session(path: str) -> None:
    """Resets a session of jaxlens that could not be written, so that the next one can start.

    Args:
        path: Log directory of the session; a session with another directory is not reset.

    Gone: the next session of the process fails, as it does in JAX alone.
    """
    try:
        state = private("profiler")._profile_state
        with state.lock:
            if str(state.log_dir) == path:
                state.reset()
    except (ImportError, AttributeError):
        pass
