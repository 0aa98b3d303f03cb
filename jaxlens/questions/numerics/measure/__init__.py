"""Runs a program op by op, with every float beside it in float64, and compiled."""
