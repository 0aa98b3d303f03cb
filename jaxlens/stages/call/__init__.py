"""Prepares a call for tracing: the innermost function, its transforms and its target."""
