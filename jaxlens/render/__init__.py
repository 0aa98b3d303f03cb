"""Data in; text, HTML, DOT and SVG out."""
