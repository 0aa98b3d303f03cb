"""What JAX traces, lowers and compiles while a block runs, and what would have avoided it."""
