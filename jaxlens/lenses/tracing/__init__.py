"""What tracing did: the ladder of transforms, the lines that ran, why it failed."""
