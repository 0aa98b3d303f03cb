"""Traces a function with ever more of its transforms."""
