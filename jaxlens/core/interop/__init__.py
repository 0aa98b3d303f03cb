"""Functions of JAX in the core: JAX traces, the core does the rest. See `from_jax.py`."""
