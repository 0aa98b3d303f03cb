"""The blocks that answer one question each."""
