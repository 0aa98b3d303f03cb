"""What the lines of a Python function do while JAX traces it."""
