"""The only folder that drives JAX and XLA."""
