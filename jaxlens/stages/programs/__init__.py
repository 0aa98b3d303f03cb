"""Programs as text: compiled, edited, extracted and written to a file."""
