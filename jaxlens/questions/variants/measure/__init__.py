"""Programs that are changed, cut out, compiled with other flags, or written to a file."""
