"""Records one run of Python with JAX's profiler: dispatches, waits, executions, and their lines."""
