"""Callables that a test looks at."""
