"""Records what each line of a Python function does while JAX traces it."""
