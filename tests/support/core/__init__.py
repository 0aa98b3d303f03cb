"""Builders for the tests of `jaxlens.core`: one program in core and in JAX, and how to compare."""
