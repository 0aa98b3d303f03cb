"""Matchers: which nodes of two programs correspond, and how that is known."""
