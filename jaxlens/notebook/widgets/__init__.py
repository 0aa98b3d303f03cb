"""The live widgets, and their connection to the page."""
