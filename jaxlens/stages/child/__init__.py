"""Compiles programs in a child process, which they may end."""
