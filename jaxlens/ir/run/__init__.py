"""What was recorded of runs, and of the process that runs them."""
