"""The keys by which JAX and `jaxlens.core` look up calls: does a call hit, and what is new?"""
