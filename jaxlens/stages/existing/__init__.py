"""Captures of existing programs: JAX's stage objects, HLO and StableHLO text, dump folders."""
