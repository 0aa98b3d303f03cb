"""Flops and bytes of a program, and the limits of the device that runs it."""
