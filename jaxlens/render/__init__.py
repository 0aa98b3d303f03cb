"""Draws documents: data in; text, HTML, SVG and DOT out. Knows no capture."""
