"""Cures for recompiles, tested on keys, programs and by a trace."""
