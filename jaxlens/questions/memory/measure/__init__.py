"""Traces programs again under jax.checkpoint, and finds the one that ran out of memory."""
