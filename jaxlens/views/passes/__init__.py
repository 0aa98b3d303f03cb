"""The steps through the optimisation passes, and two programs side by side."""
