"""Tracing and lowering, with a stamp on every equation."""
