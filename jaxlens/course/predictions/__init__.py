"""Predictions, a file for each part of the course."""
