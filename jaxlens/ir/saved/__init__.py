"""Captures in a file."""
