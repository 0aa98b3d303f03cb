"""Logs what JAX traces, lowers and compiles in a block, and how to avoid recompiles."""
