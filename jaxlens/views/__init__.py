"""Builds blocks of documents: panes, listings, figures, passes, links of an output."""
