"""The questions that jaxlens answers: a table of rows, and what answers and shows a row."""
