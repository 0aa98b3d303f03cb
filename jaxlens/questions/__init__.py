"""The table of the questions that jaxlens answers, and the functions that answer and show them."""
