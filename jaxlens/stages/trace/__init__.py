"""Traces and lowers a call, with a stamp on every eqn."""
