"""Builds figures of modules: nested boxes and the edges between them."""
