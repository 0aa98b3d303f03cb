"""A tracing and transform core in ten files: trace, differentiate, batch, compile, run.

Imports NumPy and jaxlib only. `core/README.md` has the reading order.
"""
