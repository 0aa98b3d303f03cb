"""What JAX and the core traced, lowered and compiled while a block ran."""
