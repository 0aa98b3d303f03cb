"""Keys of JAX's caches: would this very call be found, and what in it is new?"""
