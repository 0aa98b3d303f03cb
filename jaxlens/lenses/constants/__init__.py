"""Arrays that a program has baked in: closed over, or folded by XLA."""
