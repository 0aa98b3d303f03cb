"""Compiles one function at many points of a grid, and compares what came of it."""
