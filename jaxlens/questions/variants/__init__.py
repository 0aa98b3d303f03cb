"""A program with another text, a part of it, or what makes it wrong: bisected, or in a file."""
