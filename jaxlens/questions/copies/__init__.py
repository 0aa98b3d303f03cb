"""Copies, transposes and layout changes of the optimised program, why each is made, and mends."""
