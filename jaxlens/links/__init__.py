"""Who came from whom, from a span of Python to a kernel and back. See `links.py`."""
