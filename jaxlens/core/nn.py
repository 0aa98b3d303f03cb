"""Functions that networks are made of: those of `jax.nn`, traced by JAX and run by the core."""

from functools import partial

from jaxlens.core.interop.from_jax import library

__getattr__ = partial(library, "nn")
