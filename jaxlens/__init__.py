"""jaxlens: every step from a Python function to machine code, visible and linked."""

__version__ = "0.1.0"
