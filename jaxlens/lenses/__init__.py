"""One question per file: Capture in, Report out."""
