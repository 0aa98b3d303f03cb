"""Puzzles, a folder for each part of the course."""
