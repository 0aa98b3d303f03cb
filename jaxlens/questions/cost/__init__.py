"""Flops and bytes of a program, and the limits of its device."""
