"""What tracing did: the lines that ran, their bytecode, each transform, and the depth."""
