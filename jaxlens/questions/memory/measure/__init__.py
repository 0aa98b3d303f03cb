"""Traces programs again under jax.checkpoint."""
