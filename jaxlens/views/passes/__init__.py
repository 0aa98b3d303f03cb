"""Views of XLA's optimisation passes, and diffs of two HLO programs."""
