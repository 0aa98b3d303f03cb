"""Traces or compiles variants of a program, to compare them with the original."""
