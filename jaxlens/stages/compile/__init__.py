"""Compiles with XLA and reads the dumps, kernels, profile and memory analysis of the compile."""
