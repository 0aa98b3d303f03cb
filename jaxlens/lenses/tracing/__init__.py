"""Reports on tracing: the ladder of transforms, the lines that ran, and failures."""
