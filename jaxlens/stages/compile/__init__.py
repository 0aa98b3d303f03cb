"""One compile by XLA, and all that it writes about it."""
