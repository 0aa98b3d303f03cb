"""What the values of a run held."""
