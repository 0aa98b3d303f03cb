"""Reads StableHLO, and stamps its ops."""
