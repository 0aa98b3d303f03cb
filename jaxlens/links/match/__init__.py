"""Which nodes of two programs are the same, and how that is known."""
