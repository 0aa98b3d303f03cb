"""A JAX in seven chapters, to be read in an evening and run with NumPy alone: see its README."""
