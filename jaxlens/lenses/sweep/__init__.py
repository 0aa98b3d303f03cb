"""How the figures of a program change over the points of a sweep."""
