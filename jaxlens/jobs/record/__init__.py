"""The record of a job: what its processes compiled, whether it was the same, and what changed."""
