"""A call as something that JAX can trace: the function inside, its transforms, its target."""
