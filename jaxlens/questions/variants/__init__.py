"""A program with another text, or in a file."""
