"""Random numbers without a state: from a key, the same on every device.

A traced function must give the same for the same arguments, so there is no generator that moves on
behind its back: each draw takes a key, and new keys are split off old ones. The functions are those
of `jax.random`, traced by JAX. A key is a plain array, u32[2], as `jax.random.PRNGKey` makes it.
"""

from functools import partial

from jaxlens.core.interop.from_jax import library

key = PRNGKey = library("random", "PRNGKey")
__getattr__ = partial(library, "random")
