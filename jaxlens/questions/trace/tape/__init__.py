"""The lines that Python executed while JAX traced (`%%jaxpr --tape`)."""
