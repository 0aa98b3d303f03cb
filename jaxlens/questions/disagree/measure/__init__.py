"""Runs a program compiled, op by op and in float64, and cuts down one that is compiled wrongly."""
