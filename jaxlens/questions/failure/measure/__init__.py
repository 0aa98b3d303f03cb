"""Explains why tracing a call failed, and proposes rewrites of the failing line."""
