"""JAX's account of its one profiler session.

Tried with jax 0.10.2 and 0.12.0.1: `jax.profiler.stop_trace` forgets a session no earlier than
it is written, so that one which could not be written runs on for JAX, and no other can start.
"""

from jaxlens.stages.compat.import_private import private


def forget_session(path: str) -> None:
    """Ends a session of ours that could not be written, so that the user's next one can start.

    Args:
        path: Where it was to be written: another's session is left alone.

    Gone: the next session of the process fails, as it does in JAX alone.
    """
    try:
        state = private("profiler")._profile_state
        with state.lock:
            if str(state.log_dir) == path:
                state.reset()
    except (ImportError, AttributeError):
        pass
