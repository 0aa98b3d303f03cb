"""What the shell asks: a question about a function of a file, a saved program or a record."""
