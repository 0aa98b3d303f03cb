"""Runs a program with small measurements beside its equations."""
