"""Renders documents, which are plain data, as text, HTML, SVG and DOT. Imports no capture."""
