"""Why tracing a call failed, and what to write instead."""
