"""Comparison of two programs, and the figures of one that tests can assert."""
