"""Where the first NaN or infinity of a run comes from."""
