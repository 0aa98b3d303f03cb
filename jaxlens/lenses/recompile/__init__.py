"""Why JAX compiled a function again."""
