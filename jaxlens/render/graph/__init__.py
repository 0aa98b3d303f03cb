"""A figure as SVG, DOT and JSON: laid out by Graphviz, drawn here."""
