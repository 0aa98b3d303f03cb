"""Reads jaxprs."""
