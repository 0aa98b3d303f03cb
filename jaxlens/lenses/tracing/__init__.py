"""Reports on tracing: the ladder of transforms, and the lines that ran."""
