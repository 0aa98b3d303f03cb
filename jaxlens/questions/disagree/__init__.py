"""Whether the compiled program is wrong, where, and a small program that still is."""
