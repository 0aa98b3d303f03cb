"""Primitives that hold jaxprs: branches and loops."""
