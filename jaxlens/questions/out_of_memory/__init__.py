"""The program that ran out of memory, and what it would have taken."""
