"""Comparison of two captures, and the figures of one that tests can assert."""
