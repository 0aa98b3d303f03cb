"""Runs a program with measurements of its float values."""
