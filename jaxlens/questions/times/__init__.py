"""The times lens: where compile time goes."""
