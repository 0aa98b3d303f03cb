"""A tracing and transform core in ten files: trace, differentiate, batch, compile, run.

Imports NumPy and jaxlib only. `core/README.md` has the reading order.
"""

import os

# As jax sets it: jaxlib reads it when it is loaded, and logs each client to stderr without it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
