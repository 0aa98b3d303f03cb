"""A document as HTML."""
