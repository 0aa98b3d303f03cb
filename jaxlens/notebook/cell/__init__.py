"""Runs the statements of a cell, and selects the call or expression to capture."""
