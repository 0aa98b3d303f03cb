"""What more than one process is needed for: records of jobs, and sweeps."""
