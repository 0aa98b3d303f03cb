"""Executes compiled programs and measures them, and what the device can do at most."""
