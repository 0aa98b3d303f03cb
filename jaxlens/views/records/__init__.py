"""The views of a job's record."""
