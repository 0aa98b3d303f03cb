"""Runs the statements of a cell, and finds what there is to look at in it."""
