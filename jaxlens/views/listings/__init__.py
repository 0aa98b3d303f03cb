"""Renders modules as lines of text, one file for each dialect."""
