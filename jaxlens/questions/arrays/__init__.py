"""The arrays that live now: what holds them, and what grew."""
