"""Puzzles of one part of the course."""
