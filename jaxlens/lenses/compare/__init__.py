"""Two captures side by side, and the figures of one that can be compared or asserted."""
