"""Modules as figures: boxes in boxes, and the edges between them."""
