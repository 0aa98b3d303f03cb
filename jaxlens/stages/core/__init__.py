"""Programs of `jaxlens.core` as JAX's own stages."""
