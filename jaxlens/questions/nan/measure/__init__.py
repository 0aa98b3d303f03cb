"""Runs a program with a measurement of NaN and infinities beside its equations."""
