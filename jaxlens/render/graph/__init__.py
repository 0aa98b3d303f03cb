"""Renders a figure as SVG, DOT and JSON; Graphviz computes the layout."""
