"""Composes documents: asks a capture and its lenses, and hands the answer to `render`."""
