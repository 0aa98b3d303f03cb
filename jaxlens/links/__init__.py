"""Links between the nodes of all stages, from a source line to a kernel. See `links.py`."""
